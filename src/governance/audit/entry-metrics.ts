import { getTool } from '../../tools/index.ts'
import type { Metrics } from '../../shared/metrics.ts'
import type { EntryDraft } from './entry.ts'

type Count = (metrics: Metrics, draft: EntryDraft) => void

const counts: Readonly<Partial<Record<string, Count>>> = {
  'workflow.execute': ({ runsAccepted, runsEnded }, { action, status }) =>
    (action === 'finish' ? runsEnded : runsAccepted).inc({ status }),
  'workflow.refused': ({ runsRefused }) => runsRefused.inc(),
  'tool_call.decided': ({ decisions }, { status }) =>
    decisions.inc({ source: 'workflows', verdict: status }),
  'quota.exceeded': ({ quotaRefusals }, { metadata }) => {
    const limit = metadata?.['limit']
    if (typeof limit === 'string') quotaRefusals.inc({ limit })
  },
  ...Object.fromEntries(
    ['completed', 'failed', 'denied', 'rejected', 'expired', 'cancelled', 'skipped', 'retry', 'unknown_outcome']
      .map((outcome): [string, Count] => [`tool_call.${outcome}`, countCall]),
  ),
  ...Object.fromEntries(
    ['requested', 'voted', 'granted', 'rejected', 'expired', 'withdrawn', 'reopened']
      .map((change): [string, Count] => [`approval.${change}`, ({ approvals }) => approvals.inc({ change })]),
  ),
} // prettier-ignore

function countCall(
  { toolCalls, toolSeconds }: Metrics,
  { action: tool, status, durationMs }: EntryDraft,
): void {
  // Count only calls of tools in the catalogue, because a metric's label must not have an unlimited number of values.
  if (getTool(tool) === undefined) return
  toolCalls.inc({ tool, outcome: status })
  if (typeof durationMs === 'number') toolSeconds.observe({ tool }, durationMs / 1_000)
}

/**
 * Counts the events of committed audit entries. Decisions on agents' calls are not counted here: the API counts each
 * answer to an agent.
 */
export function countEntries(metrics: Metrics, drafts: readonly EntryDraft[]): void {
  for (const draft of drafts) counts[draft.eventType]?.(metrics, draft)
}
