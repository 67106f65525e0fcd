import { effectId, type EffectKey } from '../../contract/ids.ts'
import type { Resolution, Sought } from '../../contract/sought.ts'
import type { ResolutionRow } from '../../db/queries/runs.ts'
import { getTool, integrations } from '../../tools/index.ts'
import { callDigest } from '../../shared/call-digest.ts'
import { serviceOf, type ToolDeclaration } from '../../tools/kit/tool.ts'
import type { JsonObject } from '../../policy/types.ts'

/* What is shown of calls whose outcome nobody knows, and of what people said about them. */

export function soughtOf(key: EffectKey, toolName: string | null, sentAt: Date | null): Sought {
  const tool = getTool(toolName ?? '')
  const name = tool === undefined || tool.connection === 'installation' ? null : serviceOf(tool)
  const title = Object.entries(integrations).find(([each]) => each === name)?.[1].title
  const mark = tool?.mark
  return {
    service: title ?? (toolName === 'mail_send' ? 'the mail server' : 'its service'),
    sent_at: sentAt?.toISOString() ?? null,
    where: mark?.where ?? null,
    mark: mark?.of(callDigest(effectId(key))) ?? null,
    url: null,
  }
}

/** Parameters that only the service understands name no page. */
export function pageOfCall(
  tool: ToolDeclaration,
  params: JsonObject,
  destination: string | null,
): string | null {
  if (destination === null || tool.pageOf === undefined) return null
  try {
    return tool.pageOf(params, `https://${destination}`)
  } catch {
    return null
  }
}

/** In the view of one step. */
export const mostResolutions = 20

export const resolutionOf = (row: ResolutionRow): Resolution => ({
  item_index: row.item_index < 0 ? null : row.item_index,
  attempt: row.attempt,
  outcome: row.outcome,
  by: row.resolved_by,
  by_email: row.email,
  at: row.at.toISOString(),
})
