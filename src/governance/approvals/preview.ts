import { diffOf, fieldsOf, quoted, titleOf, type Preview } from '../../catalog/preview.ts'
import type { ToolDeclaration } from '../../catalog/tool.ts'
import { parseParams } from '../../contract/tool-params.ts'
import type { JsonObject } from '../../policy/types.ts'
import type { ApprovedState } from './approved-state.ts'
import { effectiveParams } from '../runs/values/sealed-params.ts'

/** An approver's view of a run's call: its resolved parameters, and the state that it would change. */
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

/**
 * The parameters in the order of the tool's preview, then all others. Stored parameters are in alphabetical order, which
 * says nothing to a reader.
 */
export function inPreviewOrder(tool: ToolDeclaration | undefined, params: JsonObject): JsonObject {
  const names = tool === undefined ? [] : Object.keys(draftOf(tool, params).fields ?? {})
  const known = names.filter((name) => Object.hasOwn(params, name))
  return Object.fromEntries(
    [...new Set([...known, ...Object.keys(params)])].map((name) => [name, params[name] ?? null]),
  )
}

/** The parameters of agents' tools that describe a call best, in this order. */
const telling = ['command', 'file_path', 'path', 'notebook_path', 'url', 'query', 'to', 'subject', 'title']

/** Names of the parameter with the path of a file. */
const pathNames = ['file_path', 'filePath', 'path', 'notebook_path', 'notebookPath']

/** The titles of common tools of agents' clients: a verb, and the parameter that says on what the tool works. */
const titles: ReadonlyMap<string, readonly [verb: string, param: string]> = new Map([
  ['Bash', ['Run', 'command']],
  ['Edit', ['Edit', 'file_path']],
  ['NotebookEdit', ['Edit', 'notebook_path']],
  ['Read', ['Read', 'file_path']],
  ['WebFetch', ['Fetch', 'url']],
  ['WebSearch', ['Search the web for', 'query']],
  ['Write', ['Write', 'file_path']],
])

/** Names of the parameters with the old and the new text of an edit. Clients spell them in two ways. */
const edits = [
  ['old_string', 'new_string'],
  ['oldString', 'newString'],
] as const

/**
 * An approver's view of an agent's call. Agents' tools are not in the catalogue, so they have no preview of their own.
 * The title comes from `titles`; for other tools it is the tool's name and its most telling text parameter. The most
 * telling parameters come first, whatever order the agent chose.
 */
export function agentPreviewOf(tool: string | null, params: JsonObject): Preview {
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
  }
}

function agentTitle(tool: string | null, params: JsonObject): string {
  const given = (name: string): string => {
    const value = Object.hasOwn(params, name) ? params[name] : undefined
    return typeof value === 'string' ? value.trim() : ''
  }
  // A tool reads one of several paths, and ignores the others. So a title with one of them could name the wrong file.
  const isUnclear = new Set(pathNames.map(given).filter((path) => path !== '')).size > 1
  const textOf = (name: string): string => (isUnclear && pathNames.includes(name) ? '' : given(name))
  const [verb, param = ''] = titles.get(tool ?? '') ?? []
  if (verb !== undefined && textOf(param) !== '') return `${verb} ${quoted(textOf(param))}`
  const name = tool ?? 'a tool'
  const first = [...telling, ...Object.keys(params)].find((each) => textOf(each) !== '')
  return first === undefined ? `Call ${name}` : `Call ${name} with ${first} ${quoted(textOf(first))}`
}

/** Tools of clients that replace a part of a file. */
const editors = new Set(['edit', 'replace', 'replace_string_in_file'])
/** Tools of clients that replace a whole file by `content`. */
const writers = new Set(['write', 'write_file', 'create_file'])

/**
 * The change of a file by an agent's client. The service sees only the texts that the client sends. A tool ignores
 * parameters that it does not know, so an agent could add some that describe a harmless change. Therefore the tool
 * decides which parameters are the change. Our hook sends an edit in both spellings: if their texts differ, no change
 * is shown.
 */
function changeOf(tool: string | null, params: JsonObject): Pick<Preview, 'diff' | 'note'> {
  const name = tool?.toLowerCase() ?? ''
  if (editors.has(name)) return editOf(params)
  const content = params['content']
  if (!writers.has(name) || typeof content !== 'string') return {}
  return {
    diff: diffOf(null, content),
    note: 'The call replaces the whole file. Countersign does not see what the file contains now.',
  }
}

function editOf(params: JsonObject): Pick<Preview, 'diff' | 'note'> {
  const given = edits.filter((names) => names.some((name) => Object.hasOwn(params, name)))
  const [[before, after] = [], ...others] = given.map(([from, to]) => [params[from], params[to]] as const)
  if (typeof before !== 'string' || typeof after !== 'string') return {}
  if (others.some(([from, to]) => from !== before || to !== after)) return {}
  const every = params['replace_all'] === true || params['replaceAll'] === true
  const where = every ? 'every place with the old text' : 'the place with the old text'
  return {
    diff: diffOf(before, after),
    note: `Both texts come from the agent. Countersign does not see the file: the call changes ${where}.`,
  }
}

/**
 * The tool's own preview, else the first sentence of its description. The tool may no longer accept parameters of an
 * older version.
 */
function draftOf(tool: ToolDeclaration, given: JsonObject) {
  const parsed = tool.preview === undefined ? null : parseParams(tool, given)
  if (tool.preview !== undefined && parsed?.ok === true) return tool.preview(parsed.params)
  return { title: tool.description.replace(/[.;] .*/s, '').replace(/\.$/, '') }
}
