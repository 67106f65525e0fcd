import { fieldsOf, quoted, titleOf, type Preview } from '../../catalog/preview.ts'
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

/** The parameters of agents' tools that describe a call best, in this order. */
const telling = ['command', 'file_path', 'path', 'notebook_path', 'url', 'query', 'to', 'subject', 'title']

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
    ...new Set([...telling.filter((each) => Object.hasOwn(params, each)), ...Object.keys(params)]),
  ]
  return {
    title: titleOf(title),
    fields: fieldsOf(Object.fromEntries(names.map((each) => [each, params[each]]))),
  }
}

/** The tool's own preview, else its description. The tool may no longer accept parameters of an older version. */
function draftOf(tool: ToolDeclaration, given: JsonObject) {
  const parsed = tool.preview === undefined ? null : parseParams(tool, given)
  if (tool.preview !== undefined && parsed?.ok === true) return tool.preview(parsed.params)
  return { title: tool.description }
}
