import { getTool } from '../../tools/index.ts'
import type { AuditEventType } from '../../contract/audit-events.ts'
import type { GrantedRun } from '../../db/queries/runs.ts'
import type { Log } from '../../shared/log.ts'
import type { EntryDraft } from './entry.ts'

type Level = 'debug' | 'info' | 'warn'

/**
 * The log level of each event type. Types that are not in this list have the level `info`. Frequent events have the
 * level `debug`, for example the decision on a single call.
 */
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

/**
 * The events that end a call. If the call belongs to one item of a `for_each` step, the event's line has the level
 * `debug`. The whole step gets its own line.
 */
const endsOfItems = new Set([
  'tool_call.failed',
  'tool_call.denied',
  'tool_call.rejected',
  'tool_call.expired',
])

/**
 * The fields of an entry's metadata that the log shows. They contain ids, counts and fixed terms of the service. Names,
 * reasons, labels and hashes are only in the audit log.
 */
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

/**
 * Writes one line for each audit entry, after the commit of the entry. So every line reports something that has really
 * happened. Only the process that committed the entry writes this line. `requestOf` returns the id of the request that
 * started a run.
 */
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

/** Writes one line for each run that got a slot: a queued run starts now, and a run that waited for a slot goes on. */
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
    // An agent chooses the names of its tools, so log only names of the catalogue.
    tool: [action, tool ?? ''].find((name) => getTool(name) !== undefined),
    duration_ms: durationMs ?? undefined,
    ...about,
    ...more,
  }
}
