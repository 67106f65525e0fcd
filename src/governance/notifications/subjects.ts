import { sql, type RawBuilder } from 'kysely'
import { getTool } from '../../catalog/index.ts'
import { callId, readCallId } from '../../contract/effect-key.ts'
import type { ApprovalKind, ApprovalStatus } from '../../contract/status.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Risk } from '../../db/schema/runs.ts'
import { assessRisk } from '../../policy/risk.ts'
import { isOverSql } from '../approvals/state.ts'

/** How a thing that waited ended. `settled` and `retried`: a person settled an unknown outcome; `dropped`: its run ended. */
export type SubjectState =
  | 'waits'
  | 'approved'
  | 'rejected'
  | 'expired'
  | 'withdrawn'
  | 'superseded'
  | 'settled'
  | 'retried'
  | 'dropped'

/** What a message is about, at one moment, without any parameter. */
export interface Subject {
  readonly kind: 'approval' | 'call'
  /** The id in the list of approvals. */
  readonly id: string
  /** The attempt whose outcome is unknown; 0 for an approval. */
  readonly round: number
  readonly asks: ApprovalKind | 'resolution'
  readonly state: SubjectState
  /** The rejection asks for something else instead. */
  readonly changesRequested: boolean
  readonly runId: string | null
  readonly stepId: string | null
  readonly itemIndex: number | null
  /** Items of its `for_each` step; null for another step. */
  readonly itemCount: number | null
  readonly sessionId: string | null
  readonly tool: string | null
  readonly workflowName: string | null
  readonly agentName: string | null
  readonly ruleName: string | null
  readonly labels: readonly string[]
  readonly risk: Risk
  readonly requestedBy: string
  readonly requesterEmail: string
  readonly approver: 'admin' | 'owner'
  readonly createdAt: Date
  readonly expiresAt: Date | null
  /** Addresses of those whose votes decided it. */
  readonly decidedBy: readonly string[]
  /** The path of its page. */
  readonly path: string
}

/** Approvals of the organization as they are now. */
export async function readApprovalSubjects(
  db: Db,
  organizationId: string,
  ids: readonly string[],
): Promise<readonly Subject[]> {
  return ids.length === 0 ? [] : approvalSubjects(db, organizationId, sql`a.id = any(${ids}::text[])`)
}

interface ApprovalRow {
  readonly id: string
  readonly kind: ApprovalKind
  readonly status: ApprovalStatus
  readonly is_over: boolean
  readonly superseded_by: string | null
  readonly run_id: string | null
  readonly step_id: string | null
  readonly item_index: number | null
  readonly item_count: number | null
  readonly session_id: string | null
  readonly tool: string | null
  readonly workflow_name: string | null
  readonly agent_name: string | null
  readonly rule_name: string | null
  readonly labels: readonly string[]
  readonly risk: Risk
  readonly requested_by: string
  readonly requester_email: string
  readonly approver: 'admin' | 'owner'
  readonly created_at: Date
  readonly expires_at: Date | null
  readonly votes: readonly {
    readonly email: string
    readonly decision: 'approve' | 'reject'
    readonly changes_requested: boolean
  }[]
}

async function approvalSubjects(
  db: Db,
  organizationId: string,
  where: RawBuilder<unknown>,
): Promise<readonly Subject[]> {
  const { rows } = await sql<ApprovalRow>`
    select a.id, a.kind, a.status, ${isOverSql(sql<Date>`clock_timestamp()`)} as is_over, a.superseded_by, a.run_id,
      a.step_id, a.item_index, t.item_count, a.session_id, a.tool, w.name as workflow_name, s.agent_name, a.rule_name,
      a.labels, a.risk, a.requested_by, u.email as requester_email, a.approver, a.created_at, a.expires_at,
      coalesce((select json_agg(json_build_object('email', p.email, 'decision', v.decision,
                                                  'changes_requested', v.changes_requested) order by v.at)
                from approval_votes v join users p on p.id = v.user_id where v.approval_id = a.id), '[]') as votes
    from approvals a join users u on u.id = a.requested_by
      left join workflows w on w.id = a.workflow_id
      left join agent_sessions s on s.id = a.session_id
      left join run_steps t on t.run_id = a.run_id and t.step_id = a.step_id
    where a.organization_id = ${organizationId} and ${where}
    order by a.id`.execute(db)
  return rows.map(approvalSubject)
}

function approvalSubject(row: ApprovalRow): Subject {
  const state = stateOf(row)
  const deciding = row.votes.filter(
    ({ decision }) => decision === (state === 'rejected' ? 'reject' : 'approve'),
  )
  return {
    kind: 'approval',
    id: row.id,
    round: 0,
    asks: row.kind,
    state,
    changesRequested: deciding.some((vote) => vote.decision === 'reject' && vote.changes_requested),
    runId: row.run_id,
    stepId: row.step_id,
    itemIndex: row.item_index,
    itemCount: row.item_count,
    sessionId: row.session_id,
    tool: row.tool,
    workflowName: row.workflow_name,
    agentName: row.agent_name,
    ruleName: row.rule_name,
    labels: row.labels,
    risk: row.risk,
    requestedBy: row.requested_by,
    requesterEmail: row.requester_email,
    approver: row.approver,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    decidedBy: state === 'approved' || state === 'rejected' ? deciding.map(({ email }) => email) : [],
    path: `/console/approvals/${row.id}`,
  }
}

/** An approval that was replaced says so, whatever it was before. */
function stateOf(row: Pick<ApprovalRow, 'status' | 'is_over' | 'superseded_by'>): SubjectState {
  if (row.superseded_by !== null) return 'superseded'
  if (row.status === 'pending') return row.is_over ? 'expired' : 'waits'
  return row.status === 'cancelled' ? 'withdrawn' : row.status
}

interface CallRow {
  readonly run_id: string
  readonly step_id: string
  readonly item_index: number
  readonly item_count: number | null
  readonly tool: string
  readonly state: string
  readonly attempt: number
  readonly resolved: boolean
  readonly run_ended: boolean
  readonly workflow_name: string
  readonly labels: readonly string[]
  readonly requested_by: string
  readonly requester_email: string
  readonly sent_at: Date | null
  readonly created_at: Date
}

/** Calls by their ids (`callId`), each as the attempt `round` stands now; without `round` as the newest attempt. */
export async function readCallSubjects(
  db: Db,
  organizationId: string,
  calls: readonly { readonly id: string; readonly round: number | null }[],
): Promise<readonly Subject[]> {
  const keys = calls.flatMap(({ id, round }) => {
    const key = readCallId(id)
    return key === null ? [] : [{ ...key, round }]
  })
  if (keys.length === 0) return []
  const { rows } = await sql<CallRow & { round: number }>`
    select e.run_id, e.step_id, e.item_index, t.item_count, e.tool, e.state, e.attempt,
      coalesce(k.round, e.attempt) as round, e.resolved_outcome is not null as resolved,
      r.finished_at is not null as run_ended, w.name as workflow_name, e.labels, r.requested_by, r.requester_email,
      e.sent_at, r.created_at
    from unnest(${keys.map((key) => key.runId)}::text[], ${keys.map((key) => key.stepId)}::text[],
                ${keys.map((key) => key.itemIndex)}::int[], ${keys.map((key) => key.round)}::int[])
           as k(run_id, step_id, item_index, round)
      join effects e on e.run_id = k.run_id and e.step_id = k.step_id and e.item_index = k.item_index
      join runs r on r.id = e.run_id
      join workflows w on w.id = r.workflow_id
      left join run_steps t on t.run_id = e.run_id and t.step_id = e.step_id
    where r.organization_id = ${organizationId}`.execute(db)
  return rows.map(callSubject)
}

function callSubject(row: CallRow & { round: number }): Subject {
  const tool = getTool(row.tool)
  const sideEffect = tool?.sideEffect ?? 'write'
  return {
    kind: 'call',
    id: callId(row),
    round: row.round,
    asks: 'resolution',
    state: callState(row),
    changesRequested: false,
    runId: row.run_id,
    stepId: row.step_id,
    itemIndex: row.item_index < 0 ? null : row.item_index,
    itemCount: row.item_count,
    sessionId: null,
    tool: row.tool,
    workflowName: row.workflow_name,
    agentName: null,
    ruleName: null,
    labels: row.labels,
    risk: assessRisk([{ sideEffect, risk: tool?.risk ?? 'high', labels: row.labels }]),
    requestedBy: row.requested_by,
    requesterEmail: row.requester_email,
    approver: 'admin',
    createdAt: row.sent_at ?? row.created_at,
    expiresAt: null,
    decidedBy: [],
    path: `/console/runs/${row.run_id}`,
  }
}

function callState(row: CallRow & { round: number }): SubjectState {
  if (row.attempt > row.round || row.resolved) return 'retried'
  if (row.state !== 'unknown_outcome') return 'settled'
  return row.run_ended ? 'dropped' : 'waits'
}
