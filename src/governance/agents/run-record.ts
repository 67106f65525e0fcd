import type { Db } from '../../db/schema/index.ts'
import type { JsonParts } from '../../shared/json-parts.ts'
import type { RunView } from '../runs/read/read.ts'
import { pendingInParts } from '../runs/read/waiting-parts.ts'
import { emailOf } from './read.ts'

export type SessionRunView = Omit<RunView, 'workflow_id' | 'workflow_version' | 'waiting_for'> & {
  readonly waiting_for: JsonParts
  readonly workflow_id: null
  readonly workflow_version: null
  readonly agent_session_id: string
}

const words = {
  live: { status: 'running', reason: 'an agent session: its calls are in the receipt' },
  ended: { status: 'completed', reason: 'the agent session has ended; its next call opens it again' },
  revoked: { status: 'cancelled', reason: 'the agent session was revoked' },
} as const

/** Null if there is no such session. The session's calls are in the receipt. */
export async function readSessionRun(
  db: Db,
  organizationId: string,
  runId: string,
): Promise<SessionRunView | null> {
  const session = await db
    .selectFrom('agent_sessions')
    .selectAll()
    .select((eb) => [
      emailOf(eb, 'user_id').as('user_email'),
      eb
        .selectFrom('approvals')
        .select((of) => of.fn.min('approvals.created_at').as('since'))
        .whereRef('approvals.session_id', '=', 'agent_sessions.id')
        .where('approvals.status', '=', 'pending')
        .as('waiting_since'),
    ])
    .where('run_id', '=', runId)
    .where('organization_id', '=', organizationId)
    .executeTakeFirst()
  if (session === undefined) return null
  const { status, reason } = words[session.status]
  return {
    id: runId,
    execution_id: runId,
    agent_session_id: session.id,
    workflow_id: null,
    workflow_name: null,
    workflow_version: null,
    organization_id: organizationId,
    status,
    status_reason: reason,
    waiting_for: pendingInParts({ db }, { column: 'session_id', value: session.id }),
    waiting_since: session.waiting_since?.toISOString() ?? null,
    requested_by: session.user_id,
    requester_email: session.user_email ?? '',
    trigger: null,
    rerun_of: null,
    made_again_as: null,
    inputs: {},
    input_labels: {},
    outputs: {},
    result: null,
    steps: [],
    risk: { level: 'low', reasons: [] },
    created_at: session.started_at.toISOString(),
    started_at: session.started_at.toISOString(),
    finished_at: session.ended_at?.toISOString() ?? null,
    data_removed_at: null,
    duration_ms: session.ended_at === null ? null : session.ended_at.getTime() - session.started_at.getTime(),
    nodes_executed: session.allowed,
    nodes_failed: session.denied,
    cost: 0,
    changed_since_your_last_run: null,
  }
}
