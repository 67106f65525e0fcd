import { fieldsOf, titleOf, type Preview } from '../../catalog/preview.ts'
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

/** An older version may have taken parameters that the tool does not take now. */
function draftOf(tool: ToolDeclaration, given: JsonObject) {
  const parsed = tool.preview === undefined ? null : parseParams(tool, given)
  if (tool.preview !== undefined && parsed?.ok === true) return tool.preview(parsed.params)
  return { title: tool.description }
}
