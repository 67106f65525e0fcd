import { diffOf, fieldsOf, mostOfPreview, quoted, titleOf, type Preview } from '../../tools/kit/preview.ts'
import type { ToolDeclaration } from '../../tools/kit/tool.ts'
import { parseParams } from '../../contract/tool-params.ts'
import { isObject } from '../../contract/json.ts'
import { isShellCall, scriptsOf, shownName, shownOfShell } from '../../policy/shell-params.ts'
import type { Json, JsonObject } from '../../policy/types.ts'
import type { ApprovedState } from './approved-state.ts'
import { effectiveParams } from '../runs/values/sealed-params.ts'

export function previewOf(
  tool: ToolDeclaration,
  params: JsonObject,
  requesterEmail: string,
  state: ApprovedState | null = null,
): Preview {
  const given = effectiveParams(tool, params, requesterEmail)
  const draft = draftOf(tool, given)
  const { fields = [], diff, note } = state ?? {}
  return {
    title: titleOf(draft.title),
    fields: [...fieldsOf(draft.fields ?? given), ...fields],
    ...(diff === undefined ? {} : { diff }),
    ...(note === undefined ? {} : { note }),
  }
}

/** First those in the tool's preview: the alphabetical order of stored parameters does not help. */
export function inPreviewOrder(tool: ToolDeclaration | undefined, params: JsonObject): JsonObject {
  const names = tool === undefined ? [] : Object.keys(draftOf(tool, params).fields ?? {})
  const known = names.filter((name) => Object.hasOwn(params, name))
  return Object.fromEntries(
    [...new Set([...known, ...Object.keys(params)])].map((name) => [name, params[name] ?? null]),
  )
}

/** The parameters of agents' tools that describe a call best, the best one first. */
const telling = [
  'command',
  'cwd',
  'scripts',
  'file_path',
  'path',
  'notebook_path',
  'url',
  'query',
  'to',
  'subject',
  'title',
]

/** In agents' tools, parameters with these names usually contain the path of a file. */
const pathNames = ['file_path', 'filePath', 'path', 'notebook_path', 'notebookPath']

/** Verb and parameter of the title. Example: `Read “a.txt”`. */
const titles: ReadonlyMap<string, readonly [verb: string, param: string]> = new Map([
  ['Bash', ['Run', 'command']],
  ['Edit', ['Edit', 'file_path']],
  ['MultiEdit', ['Edit', 'file_path']],
  ['NotebookEdit', ['Edit', 'notebook_path']],
  ['Read', ['Read', 'file_path']],
  ['WebFetch', ['Fetch', 'url']],
  ['WebSearch', ['Search the web for', 'query']],
  ['Write', ['Write', 'file_path']],
])

/** The old and the new text. Clients spell them in two ways. */
const edits = [
  ['old_string', 'new_string'],
  ['oldString', 'newString'],
] as const

/**
 * The title is from `titles`, or has the tool's name and the first text parameter of `telling`. The
 * parameters in `telling` and `edits` come first, and then the others in the agent's order.
 */
export function agentPreviewOf(tool: string | null, given: JsonObject): Preview {
  const params = shownOfShell(tool, given)
  const names = [
    ...new Set([
      ...[...telling, ...edits.flat()].filter((each) => Object.hasOwn(params, each)),
      ...Object.keys(params),
    ]),
  ]
  return {
    title: titleOf(agentTitle(tool, params)),
    fields: fieldsOf(Object.fromEntries(names.map((each) => [each, params[each]]))),
    ...changeOf(tool, params),
    ...noteOfShell(tool, given),
  }
}

/** Returns what an approval of a shell's call does not cover, and whether the call may run in several folders. */
function noteOfShell(tool: string | null, params: JsonObject): Pick<Preview, 'note'> {
  if (!isShellCall(tool)) return {}
  const open = scriptsOf(params).filter(({ sha256 }) => sha256 === null)
  const words = open.slice(0, 5).map((script) => quoted(shownName(script).slice(0, 100)))
  const more = open.length > words.length ? ` and of ${open.length - words.length} more` : ''
  const note = [
    ...(params['cwd'] === undefined ? ['The client does not say in which folder the command runs.'] : []),
    ...(isObject(params['cwd']) ? ['The command may run in each of the folders shown.'] : []),
    ...(open.length === 0
      ? []
      : [
          `The approval does not cover the content of ${words.join(', ')}${more}: it may change until it runs.`,
        ]),
  ].join(' ')
  return note === '' ? {} : { note }
}

function agentTitle(tool: string | null, params: JsonObject): string {
  const given = (name: string): string => {
    const value = Object.hasOwn(params, name) ? params[name] : undefined
    return typeof value === 'string' ? value.trim() : ''
  }
  // With several different paths, the tool uses only one, so a title could name the wrong file.
  const isUnclear = new Set(pathNames.map(given).filter((path) => path !== '')).size > 1
  const textOf = (name: string): string => (isUnclear && pathNames.includes(name) ? '' : given(name))
  const [verb, param = ''] = titles.get(tool ?? '') ?? []
  if (verb !== undefined && textOf(param) !== '') return `${verb} ${quoted(textOf(param))}`
  const name = tool ?? 'a tool'
  const first = [...telling, ...Object.keys(params)].find((each) => textOf(each) !== '')
  return first === undefined ? `Call ${name}` : `Call ${name} with ${first} ${quoted(textOf(first))}`
}

/** The names of agents' tools that replace a part of a file. The names are in lower case. */
const editors = new Set(['edit', 'replace', 'replace_string_in_file'])
/** In lower case. These tools replace a whole file with the text in `content`. */
const writers = new Set(['write', 'write_file', 'create_file'])

/**
 * The tool's name decides which parameters are the change: an agent could add parameters that the tool
 * ignores and that describe a harmless change. If the two spellings (`edits`) differ, no change is shown.
 */
function changeOf(tool: string | null, params: JsonObject): Pick<Preview, 'diff' | 'note'> {
  const name = tool?.toLowerCase() ?? ''
  if (editors.has(name)) return editOf(params)
  if (name === 'multiedit') return editsOf(params['edits'])
  const content = params['content']
  if (!writers.has(name) || typeof content !== 'string') return {}
  return {
    diff: diffOf(null, content),
    note: 'The call replaces the whole file. Countersign does not see what the file contains now.',
  }
}

function editOf(params: JsonObject): Pick<Preview, 'diff' | 'note'> {
  const texts = editTexts(params)
  if (texts === null) return {}
  const where = texts.every ? 'every place with the old text' : 'the place with the old text'
  return {
    diff: diffOf(texts.before, texts.after),
    note: `Both texts come from the agent. Countersign does not see the file: the call changes ${where}.`,
  }
}

const headOf = (index: number, every: boolean): string =>
  `── change ${index + 1}${every ? ', every place' : ''} ──`
/** So the diff never matches the lines of two different changes. */
const numbered = (index: number, text: string): string =>
  text
    .split('\n')
    .map((line) => `${index + 1} │ ${line}`)
    .join('\n')

/** No diff if the edits are too many or too long to show all of them. */
function editsOf(list: Json | undefined): Pick<Preview, 'diff' | 'note'> {
  if (!Array.isArray(list) || list.length === 0 || list.length > 50) return {}
  const texts = list.map((edit) => (isObject(edit) ? editTexts(edit) : null))
  if (texts.includes(null)) return {}
  // Numbers make the texts longer, so the length is tested first without them.
  const isTooLong = (name: 'before' | 'after'): boolean =>
    texts.reduce((sum, each) => sum + (each?.[name].length ?? 0), 0) > mostOfPreview.side
  if (isTooLong('before') || isTooLong('after')) return {}
  const side = (name: 'before' | 'after'): string =>
    texts
      .map((each, index) => `${headOf(index, each?.every === true)}\n${numbered(index, each?.[name] ?? '')}`)
      .join('\n')
  const [before, after] = [side('before'), side('after')]
  if (Math.max(before.length, after.length) > mostOfPreview.side) return {}
  return {
    diff: diffOf(before, after),
    note: 'All texts come from the agent. Countersign does not see the file: the call makes the changes in this order.',
  }
}

/** Null if a text is missing, or if the two spellings have different texts. */
function editTexts(params: JsonObject): { before: string; after: string; every: boolean } | null {
  const given = edits.filter((names) => names.some((name) => Object.hasOwn(params, name)))
  const [[before, after] = [], ...others] = given.map(([from, to]) => [params[from], params[to]] as const)
  if (typeof before !== 'string' || typeof after !== 'string') return null
  if (others.some(([from, to]) => from !== before || to !== after)) return null
  return { before, after, every: params['replace_all'] === true || params['replaceAll'] === true }
}

/** Or the description's first sentence: a tool may not accept parameters that an older version stored. */
function draftOf(tool: ToolDeclaration, given: JsonObject) {
  const parsed = tool.preview === undefined ? null : parseParams(tool, given)
  if (tool.preview !== undefined && parsed?.ok === true) return tool.preview(parsed.params)
  return { title: tool.description.replace(/[.;] .*/s, '').replace(/\.$/, '') }
}
