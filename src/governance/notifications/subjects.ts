import { sql, type RawBuilder } from 'kysely'
import { getTool } from '../../tools/index.ts'
import { callId, readCallId } from '../../contract/effect-key.ts'
import type { ApprovalKind } from '../../contract/status.ts'
import {
  selectCallSubjects,
  selectApprovalSubjects,
  type CallRow,
  type ApprovalRow,
} from '../../db/queries/notifications.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Risk } from '../../db/schema/runs.ts'
import { assessRisk } from '../../policy/risk.ts'
import type { VoteWithRole } from '../approvals/requirement.ts'
import { isOverSql } from '../approvals/state.ts'

/**
 * Says whether a subject waits or how it ended. `settled`, `retried` and `dropped` are states of a call. `settled`
 * means that a person has chosen the call's outcome, or that the outcome was reported late. `retried` means that a
 * person has chosen to make the call again. `dropped` means that the run ended before a person decided.
 */
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

/**
 * The subject of a message: an approval, or a call with an unknown outcome. The fields show how the subject was at the
 * moment when it was read. They contain no parameters.
 */
export interface Subject {
  readonly kind: 'approval' | 'call'
  /** The id in the list of approvals. For a call it is `RUN/STEP/ITEM`. */
  readonly id: string
  /** The number of the attempt whose outcome is unknown; 0 for an approval. */
  readonly round: number
  readonly asks: ApprovalKind | 'resolution'
  readonly state: SubjectState
  /** Whether the rejection asks for a changed call. */
  readonly changesRequested: boolean
  readonly runId: string | null
  readonly stepId: string | null
  readonly itemIndex: number | null
  /** The number of items of a `for_each` step. Is null for any other step. */
  readonly itemCount: number | null
  readonly sessionId: string | null
  readonly tool: string | null
  /** The host to which the call goes; null if it stays here, for a whole run, and for a call of an agent. */
  readonly destination: string | null
  readonly workflowName: string | null
  readonly agentName: string | null
  readonly ruleName: string | null
  readonly labels: readonly string[]
  readonly risk: Risk
  readonly requestedBy: string
  /** Ids of the authors of the run's version; empty for a call. */
  readonly authors: readonly string[]
  readonly requesterEmail: string
  readonly approver: 'admin' | 'owner'
  readonly approvalsNeeded: number
  /** The votes so far; always empty for a call. */
  readonly votes: readonly VoteWithRole[]
  readonly createdAt: Date
  readonly expiresAt: Date | null
  /** Mail addresses of the people whose votes decided the approval. */
  readonly decidedBy: readonly string[]
  /** The path of the subject's page in the console. */
  readonly path: string
}

/** Reads approvals of the organization in their present state. */
export async function readApprovalSubjects(
  db: Db,
  organizationId: string,
  ids: readonly string[],
): Promise<readonly Subject[]> {
  return ids.length === 0 ? [] : approvalSubjects(db, organizationId, sql`a.id = any(${ids}::text[])`)
}

async function approvalSubjects(
  db: Db,
  organizationId: string,
  where: RawBuilder<unknown>,
): Promise<readonly Subject[]> {
  const { rows } = await selectApprovalSubjects({
    organizationId,
    isOver: isOverSql(sql<Date>`clock_timestamp()`),
    where,
  }).execute(db)
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
    destination: row.destination,
    workflowName: row.workflow_name,
    agentName: row.agent_name,
    ruleName: row.rule_name,
    labels: row.labels,
    risk: row.risk,
    requestedBy: row.requested_by,
    authors: row.authors,
    requesterEmail: row.requester_email,
    approver: row.approver,
    approvalsNeeded: row.approvals_needed,
    votes: row.votes,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    decidedBy: state === 'approved' || state === 'rejected' ? deciding.map(({ email }) => email) : [],
    path: `/console/approvals/${row.id}`,
  }
}

/** A replaced approval is always `superseded`, even if its status is `approved`. */
function stateOf(row: Pick<ApprovalRow, 'status' | 'is_over' | 'superseded_by'>): SubjectState {
  if (row.superseded_by !== null) return 'superseded'
  if (row.status === 'pending') return row.is_over ? 'expired' : 'waits'
  return row.status === 'cancelled' ? 'withdrawn' : row.status
}

/**
 * Reads calls by their ids (`callId`). `round` is the number of the attempt whose present state is read. If `round` is
 * null, the state of the newest attempt is read.
 */
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
  const { rows } = await selectCallSubjects({
    organizationId,
    runIds: keys.map((key) => key.runId),
    stepIds: keys.map((key) => key.stepId),
    itemIndexes: keys.map((key) => key.itemIndex),
    rounds: keys.map((key) => key.round),
  }).execute(db)
  return rows.map(callSubject)
}

function callSubject(row: CallRow & { round: number }): Subject {
  const tool = getTool(row.tool)
  const sideEffect = row.side_effect ?? tool?.sideEffect ?? 'write'
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
    destination: row.destination,
    workflowName: row.workflow_name,
    agentName: null,
    ruleName: null,
    labels: row.labels,
    risk: assessRisk([{ sideEffect, risk: tool?.risk ?? 'high', labels: row.labels }]),
    requestedBy: row.requested_by,
    authors: [],
    requesterEmail: row.requester_email,
    approver: 'admin',
    approvalsNeeded: 1,
    votes: [],
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
