import { fieldsOf, quoted, titleOf, type Preview } from '../../catalog/preview.ts'
import type { ToolDeclaration } from '../../catalog/tool.ts'
import { parseParams } from '../../contract/tool-params.ts'
import type { JsonObject } from '../../policy/types.ts'
import type { ApprovedState } from './approved-state.ts'
import { effectiveParams } from '../runs/values/sealed-params.ts'

/** What an approver sees of a call of a run: its resolved parameters, and what it changes. */
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

/** Parameters of agents' tools that say most of a call, in this order. */
const telling = ['command', 'file_path', 'path', 'notebook_path', 'url', 'query', 'to', 'subject', 'title']

/**
 * What an approver sees of an agent's call. Its tool is not in the catalog, so the title is the tool and its first text,
 * and what says most comes first, whatever order the agent chose.
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

/** An older version may have taken parameters that the tool does not take now. */
function draftOf(tool: ToolDeclaration, given: JsonObject) {
  const parsed = tool.preview === undefined ? null : parseParams(tool, given)
  if (tool.preview !== undefined && parsed?.ok === true) return tool.preview(parsed.params)
  return { title: tool.description }
}
