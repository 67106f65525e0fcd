import { getTool } from '../../tools/index.ts'
import type { AuditEventType } from '../../contract/audit-events.ts'
import type { GrantedRun } from '../../db/queries/runs.ts'
import type { Log } from '../../shared/log.ts'
import type { EntryDraft } from './entry.ts'
import type { Metrics } from '../../shared/metrics.ts'

type Level = 'debug' | 'info' | 'warn'

/** `info` for all others. Frequent events have `debug`, such as the decision on a single call. */
const levels: Partial<Record<string, Level>> = {
  'tool_call.decided': 'debug',
  'tool_call.completed': 'debug',
  'tool_call.skipped': 'debug',
  'tool_call.cancelled': 'debug',
  'step.expanded': 'debug',
  'step.completed': 'debug',
  'step.skipped': 'debug',
  'step.cancelled': 'debug',
  'agent_call.decided': 'debug',
  'agent_call.unreadable': 'debug',
  'memory.set': 'debug',
  // A person has to act after these events.
  'tool_call.unknown_outcome': 'warn',
  'agent.unapproved_call': 'warn',
  'webhook.disabled': 'warn',
} satisfies Partial<Record<AuditEventType, Level>>

/** The end of one item of a `for_each` step has the level `debug`: the whole step gets its own line. */
const endsOfItems = new Set([
  'tool_call.failed',
  'tool_call.denied',
  'tool_call.rejected',
  'tool_call.expired',
])

/** Ids, counts and fixed terms of the service. Names, reasons, labels and hashes are only in the audit log. */
const loggedFields = [
  'step_id',
  'item_index',
  'decision_id',
  'approval_id',
  'session_id',
  'rule_id',
  'attempt',
  'error_code',
  'outcome',
  'limit',
  'value',
  'items',
  'counting',
  'needed',
  'risk',
  'nodes_executed',
  'nodes_failed',
  'key_id',
  'member_id',
  'invitation_id',
  'webhook_id',
]

/** A line for each committed entry, in the process that committed it. `requestOf`: the id of a run's first request. */
export function logEntries(
  log: Log,
  organizationId: string,
  drafts: readonly EntryDraft[],
  requestOf: (runId: string) => string | null,
): void {
  for (const draft of drafts) {
    const level = levelOf(draft)
    if (log.isLevelEnabled(level)) log[level](fieldsOf(organizationId, draft, requestOf), wordsOf(draft))
  }
}

export function logGranted(log: Log, organizationId: string, runs: readonly GrantedRun[]): void {
  for (const { id, workflow_id, request_id, had } of runs)
    log.info(
      { organization_id: organizationId, request_id: request_id ?? undefined, workflow_id, run_id: id },
      had === 'queued' ? 'queued run starts' : 'run got a slot',
    )
}

function levelOf({ eventType, metadata }: EntryDraft): Level {
  const isItem = endsOfItems.has(eventType) && typeof metadata?.['item_index'] === 'number'
  return isItem ? 'debug' : (levels[eventType] ?? 'info')
}

function wordsOf({ eventType, action }: EntryDraft): string {
  if (eventType === 'workflow.execute') return action === 'finish' ? 'run ended' : 'run accepted'
  return eventType.toLowerCase().replaceAll(/[._]/g, ' ')
}

function fieldsOf(
  organizationId: string,
  { eventType, action, status, actor, workflowId, runId, durationMs, metadata, logged }: EntryDraft,
  requestOf: (runId: string) => string | null,
): Record<string, unknown> {
  const own = actor.type === 'user' ? actor.requestId : undefined
  const { request_id: given, tool, ...more } = logged ?? {}
  const about = Object.fromEntries(
    loggedFields.flatMap((name) => {
      const value = metadata?.[name]
      return typeof value === 'string' || typeof value === 'number' ? [[name, value]] : []
    }),
  )
  return {
    event: eventType,
    status,
    organization_id: organizationId,
    request_id: given ?? own ?? (runId ? requestOf(runId) : null) ?? undefined,
    workflow_id: workflowId ?? undefined,
    run_id: runId ?? undefined,
    user_id: actor.type === 'user' ? actor.id : undefined,
    // An agent chooses the names of its tools, so only names of the catalogue are logged.
    tool: [action, tool ?? ''].find((name) => getTool(name) !== undefined),
    duration_ms: durationMs ?? undefined,
    ...about,
    ...more,
  }
}

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
  // A label must not have an unlimited number of values, so only tools of the catalogue count.
  if (getTool(tool) === undefined) return
  toolCalls.inc({ tool, outcome: status })
  if (typeof durationMs === 'number') toolSeconds.observe({ tool }, durationMs / 1_000)
}

/** Decisions on agents' calls are counted where the API answers them. */
export function countEntries(metrics: Metrics, drafts: readonly EntryDraft[]): void {
  for (const draft of drafts) counts[draft.eventType]?.(metrics, draft)
}
