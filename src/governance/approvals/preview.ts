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

/** The parameters with the names of the tool's preview first, in its order. Stored parameters are in the order of the alphabet. */
export function inPreviewOrder(tool: ToolDeclaration | undefined, params: JsonObject): JsonObject {
  const names = tool === undefined ? [] : Object.keys(draftOf(tool, params).fields ?? {})
  const known = names.filter((name) => Object.hasOwn(params, name))
  return Object.fromEntries(
    [...new Set([...known, ...Object.keys(params)])].map((name) => [name, params[name] ?? null]),
  )
}

/** The parameters of agents' tools that describe a call best, in this order. */
const telling = ['command', 'file_path', 'path', 'notebook_path', 'url', 'query', 'to', 'subject', 'title']

/** Names of the parameters with the old and the new text of an edit. Clients spell them in two ways. */
const edits = [
  ['old_string', 'new_string'],
  ['oldString', 'newString'],
] as const

/**
 * An approver's view of an agent's call. The call's tool is not in the catalogue. So the title consists of the tool's
 * name and its most telling text parameter. The most telling parameters come first, whatever order the agent chose.
 */
export function agentPreviewOf(tool: string | null, params: JsonObject): Preview {
  const texts = [...telling, ...Object.keys(params)].flatMap((name) => {
    const value = Object.hasOwn(params, name) ? params[name] : undefined
    return typeof value === 'string' && value.trim() !== '' ? [{ name, value }] : []
  })
  const [first] = texts
  const name = tool ?? 'a tool'
  const title =
    first === undefined
      ? `Call ${name}`
      : tool === 'Bash' && first.name === 'command'
        ? `Run ${quoted(first.value.trim())}`
        : `Call ${name} with ${first.name} ${quoted(first.value.trim())}`
  const names = [
    ...new Set([
      ...[...telling, ...edits.flat()].filter((each) => Object.hasOwn(params, each)),
      ...Object.keys(params),
    ]),
  ]
  return {
    title: titleOf(title),
    fields: fieldsOf(Object.fromEntries(names.map((each) => [each, params[each]]))),
    ...changeOf(tool, params),
  }
}

/** Tools of clients that replace a whole file by `content`. */
const writers = new Set(['write', 'write_file', 'create_file'])

/** The change of a file by an agent's client. The service sees only the texts that the client sends. */
function changeOf(tool: string | null, params: JsonObject): Pick<Preview, 'diff' | 'note'> {
  for (const [from, to] of edits) {
    const [before, after] = [params[from], params[to]]
    if (typeof before !== 'string' || typeof after !== 'string') continue
    const every = params['replace_all'] === true || params['replaceAll'] === true
    const where = every ? 'every place where the old text stands' : 'the place where the old text stands'
    return {
      diff: diffOf(before, after),
      note: `Both texts come from the agent. Countersign does not see the file: the call changes ${where}.`,
    }
  }
  const content = params['content']
  if (!writers.has(tool?.toLowerCase() ?? '') || typeof content !== 'string') return {}
  return {
    diff: diffOf(null, content),
    note: 'The call replaces the whole file. Countersign does not see what the file holds now.',
  }
}

/** The tool's own preview, else its description. The tool may no longer accept parameters of an older version. */
function draftOf(tool: ToolDeclaration, given: JsonObject) {
  const parsed = tool.preview === undefined ? null : parseParams(tool, given)
  if (tool.preview !== undefined && parsed?.ok === true) return tool.preview(parsed.params)
  return { title: tool.description }
}
