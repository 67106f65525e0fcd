import type { Sought } from '../../contract/sought.ts'
import { soughtOf } from '../approvals/unknown.ts'
import { sql } from 'kysely'
import { getTool } from '../../tools/index.ts'
import { callId, readCallId } from '../../contract/ids.ts'
import type { ApprovalKind } from '../../contract/status.ts'
import {
  selectCallSubjects,
  type CallRow,
  selectApprovalSubjects,
  type ApprovalRow,
} from '../../db/queries/notifications/subjects.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Risk } from '../../db/schema/runs.ts'
import { assessRisk } from '../../policy/risk.ts'
import type { TermsOfKind, VoteWithRole } from '../approvals/requirement.ts'
import { Chances } from '../approvals/voters.ts'
import { isOverSql } from '../approvals/state.ts'

/** Calls are `settled` by a person or a late report, `retried` by a person, or `dropped` if the run ended first. */
export type SubjectState =
  | 'waits'
  | 'approved'
  | 'rejected'
  | 'expired'
  | 'withdrawn'
  | 'superseded'
  | 'answered'
  | 'revised'
  | 'settled'
  | 'retried'
  | 'dropped'

/** An approval, or a call with an unknown outcome, as it was when it was read. It has no parameters. */
export interface Subject {
  readonly kind: 'approval' | 'call'
  /** As in the list of approvals; `RUN/STEP/ITEM` for a call. */
  readonly id: string
  /** The attempt whose outcome is unknown; 0 for an approval. */
  readonly round: number
  readonly asks: ApprovalKind | 'resolution'
  readonly state: SubjectState
  /** The rejection asks for a changed call. */
  readonly changesRequested: boolean
  readonly runId: string | null
  readonly stepId: string | null
  readonly itemIndex: number | null
  /** null for a step without `for_each`. */
  readonly itemCount: number | null
  readonly sessionId: string | null
  readonly tool: string | null
  /** What a change would do, or what a question asks. */
  readonly title: string | null
  /** null if the call stays here, for a whole run, and for a call of an agent. */
  readonly destination: string | null
  readonly workflowName: string | null
  readonly agentName: string | null
  readonly ruleName: string | null
  readonly labels: readonly string[]
  readonly risk: Risk
  readonly requestedBy: string
  /** The authors of the run's version; empty for a call. */
  readonly authors: readonly string[]
  readonly requesterEmail: string
  /** Who must approve, and how many people. */
  readonly terms: TermsOfKind
  /** Why nobody can give it now, and what to do. null for a call, and if it does not wait. */
  readonly cannotBeGiven: string | null
  /** Empty for a call. */
  readonly votes: readonly VoteWithRole[]
  readonly createdAt: Date
  /** When those who have not voted are reminded. null for a call. */
  readonly remindAt: Date | null
  /** By the database's clock. */
  readonly readAt: Date
  readonly expiresAt: Date | null
  /** Mail addresses. */
  readonly decidedBy: readonly string[]
  /** In the console. */
  readonly path: string
  /** What is known about a call with an unknown outcome; null for an approval. */
  readonly sought: Sought | null
}

export async function readApprovalSubjects(
  db: Db,
  organizationId: string,
  ids: readonly string[],
): Promise<readonly Subject[]> {
  if (ids.length === 0) return []
  const isOver = isOverSql(sql<Date>`clock_timestamp()`)
  const where = sql`a.id = any(${ids}::text[])`
  const { rows } = await selectApprovalSubjects({ organizationId, isOver, where }).execute(db)
  const chances = new Chances(db)
  const subjects: Subject[] = []
  for (const row of rows) {
    const subject = approvalSubject(row)
    const chance =
      subject.state === 'waits' ? await chances.of({ ...row, organization_id: organizationId }) : null
    subjects.push({ ...subject, cannotBeGiven: chance?.cannotBeGiven ?? null })
  }
  return subjects
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
    title: row.title,
    destination: row.destination,
    workflowName: row.workflow_name,
    agentName: row.agent_name,
    ruleName: row.rule_name,
    labels: row.labels,
    risk: row.risk,
    requestedBy: row.requested_by,
    authors: row.authors,
    requesterEmail: row.requester_email,
    terms: {
      kind: row.kind,
      approver: row.approver,
      approvals_needed: row.approvals_needed,
      seats: row.seats,
      typed_by: row.typed_by,
    },
    cannotBeGiven: null,
    votes: row.votes,
    createdAt: row.created_at,
    remindAt: row.remind_at,
    readAt: row.read_at,
    expiresAt: row.expires_at,
    decidedBy: deciderOf(row, state, deciding),
    sought: null,
    path: `/console/approvals/${row.id}`,
  }
}

const deciderOf = (
  { answered_by: by }: ApprovalRow,
  state: SubjectState,
  deciding: ApprovalRow['votes'],
): readonly string[] => {
  if (state === 'answered' || state === 'revised') return by === null ? [] : [by]
  return state === 'approved' || state === 'rejected' ? deciding.map(({ email }) => email) : []
}

/** A replaced approval is `superseded`, even if it was approved, but for one whose call was edited. */
function stateOf(row: Pick<ApprovalRow, 'kind' | 'status' | 'is_over' | 'superseded_by'>): SubjectState {
  if (row.status === 'revised' || (row.status === 'rejected' && row.kind !== 'agent_call')) return row.status
  if (row.superseded_by !== null) return 'superseded'
  if (row.status === 'pending') return row.is_over ? 'expired' : 'waits'
  return row.status === 'cancelled' ? 'withdrawn' : row.status
}

/** In the state of the attempt `round`, or of the newest attempt if it is null. */
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
    title: null,
    destination: row.destination,
    workflowName: row.workflow_name,
    agentName: null,
    ruleName: null,
    labels: row.labels,
    risk: assessRisk([{ sideEffect, risk: tool?.risk ?? 'high', labels: row.labels }]),
    requestedBy: row.requested_by,
    authors: [],
    requesterEmail: row.requester_email,
    terms: { kind: 'step', approver: 'admin', approvals_needed: 1, seats: null, typed_by: [] },
    cannotBeGiven: null,
    votes: [],
    createdAt: row.sent_at ?? row.created_at,
    remindAt: null,
    readAt: row.read_at,
    expiresAt: null,
    decidedBy: [],
    sought: soughtOf(
      { runId: row.run_id, stepId: row.step_id, itemIndex: row.item_index },
      row.tool,
      row.sent_at,
    ),
    path: `/console/runs/${row.run_id}`,
  }
}

function callState(row: CallRow & { round: number }): SubjectState {
  if (row.attempt > row.round || row.resolved) return 'retried'
  if (row.state !== 'unknown_outcome') return 'settled'
  return row.run_ended ? 'dropped' : 'waits'
}
