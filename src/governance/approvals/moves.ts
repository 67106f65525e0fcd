import { sql, type RawBuilder } from 'kysely'
import { wakeKey, type Wake } from '../../contract/messages.ts'
import type { ApprovalStatus } from '../../contract/status.ts'
import type { WebhookEvent } from '../../contract/webhook-events.ts'
import { updateApprovals } from '../../db/queries/approvals.ts'
import type { ApprovalRevision } from '../../db/schema/runs.ts'
import type { Actor } from '../audit/entry.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { ApprovalRecord, NewApproval } from './records.ts'
import { laterTimes, storedSeats } from './requirement.ts'

/* Every change of an approval is here, with its audit entry and the event of its run. */

/** Collects changed approvals, which are then written together. `LockedCall` can be passed too. */
export interface ApprovalWriter {
  readonly tx: ChainTx
  readonly ledger: { readonly dirtyApprovals: { add(approval: ApprovalRecord): unknown } }
}

/** For a transaction without a ledger: each changed approval is written at once. */
export const writeAtOnce = (tx: ChainTx): ApprovalWriter => ({
  tx,
  ledger: {
    dirtyApprovals: { add: (approval) => void tx.send(sql`with ${updateApprovals([approval])} select 1`) },
  },
})

/** `runId` is the id of the run, or the run id of the agent session. */
interface Cause {
  readonly actor: Actor
  readonly runId: string | null
}

/** The actor of an expiry, if `expireApproval` gets no other actor. */
export const approvalsActor: Actor = { type: 'system', id: 'approvals' }

/** Does not insert the approval's row: the caller's transaction does this. */
export function announceRequest(
  tx: ChainTx,
  { record, tool, risk, title }: Pick<NewApproval, 'record' | 'tool' | 'risk' | 'title'>,
  { actor, runId }: Cause,
): void {
  const { id, kind, run_id, step_id, rule_name } = record
  noticeRequest(tx, record)
  if (run_id !== null)
    tx.event(run_id, 'approval.created', { approval_id: id, ...(step_id === null ? {} : { step_id }) })
  const former =
    record.supersedes_id === null ? {} : { supersedes_id: record.supersedes_id, because: record.held_again }
  const about = {
    run: { risk: risk.level },
    step: { step_id, rule_name, ...placeOf(record) },
    agent_call: { rule_name, ...placeOf(record) },
    change: { change: title ?? '' },
    ask: { step_id, ...placeOf(record) },
    repeat: { step_id, ...placeOf(record) },
    revision: { step_id, ...placeOf(record) },
    edit: { step_id, rule_name, ...placeOf(record) },
  }
  tx.append({
    eventType: 'approval.requested',
    action: tool ?? (kind === 'change' || kind === 'ask' ? kind : 'run'),
    status: 'pending',
    actor,
    workflowId: record.workflow_id,
    runId,
    metadata: { approval_id: id, ...about[kind], ...former },
    logged: decisionOf(record),
  })
  tx.publish('approval.created', { approval_id: id })
}

/** Messages now, at the reminder, and whenever others are asked too. */
export function noticeRequest(tx: ChainTx, record: ApprovalRecord): void {
  const later = laterTimes(storedSeats(record))
  const times = record.remind_at === null ? later : [...later, new Date(record.remind_at)]
  for (const at of [null, ...times]) tx.notice('approval', record.id, at)
}

const placeOf = ({
  item_index,
  session_id,
}: ApprovalRecord): { item_index?: number; session_id?: string } => ({
  ...(item_index === null ? {} : { item_index }),
  ...(session_id === null ? {} : { session_id }),
})

/** Only for the log: the audit entry of the decision already names the approval. */
const decisionOf = ({ decision_id }: ApprovalRecord): { decision_id?: string } =>
  decision_id === null ? {} : { decision_id }

const voteEvents = {
  rejected: 'approval.rejected',
  approved: 'approval.granted',
  pending: 'approval.voted',
} as const

/** `counting`: approving votes that count now, with this vote; 0 for a rejection. `needed`: votes needed. */
export function decideByVote(
  { tx, ledger }: ApprovalWriter,
  approval: ApprovalRecord,
  vote: {
    readonly actor: Actor
    /** The absent person by whose right they vote. */
    readonly forUser: string | null
    readonly tool: string | null
    readonly decision: 'approve' | 'reject'
    readonly counting: number
    readonly needed: number
  },
): void {
  const { actor, forUser, tool, decision, counting, needed } = vote
  const status = decision === 'reject' ? 'rejected' : counting >= needed ? 'approved' : 'pending'
  tx.append({
    eventType: voteEvents[status],
    action: decision,
    status,
    actor,
    workflowId: approval.workflow_id,
    runId: approval.run_id,
    metadata: {
      approval_id: approval.id,
      step_id: approval.step_id,
      ...placeOf(approval),
      counting,
      needed,
      params_hash: approval.params_hash,
      ...(forUser === null ? {} : { for: forUser }),
    },
    logged: { tool, ...decisionOf(approval) },
  })
  if (status === 'pending') {
    tx.notice('approval', approval.id)
    tellRun(tx, approval, 'approval.voted', { counting, needed })
    return
  }
  close({ tx, ledger }, approval, status, actor.id)
  wakeRun(tx, approval, actor.id)
}

interface Answer {
  readonly actor: Actor
  /** The absent person by whose right. */
  readonly forUser: string | null
}

/** The caller settles the step, and wakes the run. The entry has no value of the answer. */
export function answerApproval(writer: ApprovalWriter, approval: ApprovalRecord, answer: Answer): void {
  const entry = endByOne(writer, approval, 'answered', answer)
  writer.tx.append({ eventType: 'approval.answered', action: 'answer', ...entry })
}

/** A person has typed other values. The caller stores them, and wakes the run, whose call is then decided anew. */
export function reviseApproval(
  writer: ApprovalWriter,
  approval: ApprovalRecord,
  given: Answer & {
    readonly revision: ApprovalRevision
    /** The hash of the new parameters. */
    readonly paramsHash: string
  },
): void {
  approval.revision = given.revision
  const { metadata, ...entry } = endByOne(writer, approval, 'revised', given)
  const hashes = { former_hash: approval.params_hash, params_hash: given.paramsHash }
  writer.tx.append({
    eventType: 'approval.revised',
    action: 'revise',
    ...entry,
    metadata: { ...metadata, params: given.revision.params, ...hashes },
  })
}

/** By one person, without a vote. Returns the audit entry without its name. */
function endByOne(
  writer: ApprovalWriter,
  approval: ApprovalRecord,
  status: 'answered' | 'revised',
  { actor, forUser }: Answer,
) {
  approval.answered_by = actor.id
  approval.answered_for = forUser
  close(writer, approval, status, actor.id)
  return {
    status,
    actor,
    workflowId: approval.workflow_id,
    runId: approval.run_id,
    metadata: {
      approval_id: approval.id,
      step_id: approval.step_id,
      ...placeOf(approval),
      ...(forUser === null ? {} : { for: forUser }),
    },
  }
}

/** Without a cause, the actor is the service itself. */
export function expireApproval(
  writer: ApprovalWriter,
  approval: ApprovalRecord,
  { actor, runId }: Cause = { actor: approvalsActor, runId: approval.run_id },
): void {
  close(writer, approval, 'expired')
  writer.tx.append({
    eventType: 'approval.expired',
    action: 'expire',
    status: 'expired',
    actor,
    workflowId: approval.workflow_id,
    runId,
    metadata: {
      approval_id: approval.id,
      ...(approval.step_id === null ? {} : { step_id: approval.step_id }),
      ...placeOf(approval),
    },
    logged: decisionOf(approval),
  })
}

/** Because of another event, whose audit entry explains the withdrawal. */
export function withdrawApproval(writer: ApprovalWriter, approval: ApprovalRecord): void {
  close(writer, approval, 'cancelled')
}

/** `because`: why it ends, if the requester does not withdraw it. */
export function withdrawByRequester(
  writer: ApprovalWriter,
  approval: ApprovalRecord,
  actor: Actor,
  because?: string,
): void {
  withdrawApproval(writer, approval)
  writer.tx.append({
    eventType: 'approval.withdrawn',
    action: 'cancel',
    status: 'cancelled',
    actor,
    metadata: {
      approval_id: approval.id,
      session_id: approval.session_id,
      ...(because === undefined ? {} : { because }),
    },
    logged: decisionOf(approval),
  })
}

/** `by` is the id of the new approval. A pending former approval is withdrawn. */
export function supersedeApproval(writer: ApprovalWriter, former: ApprovalRecord, by: string): void {
  if (former.status === 'pending') withdrawApproval(writer, former)
  former.superseded_by = by
  writer.tx.notice('approval', former.id)
  writer.ledger.dirtyApprovals.add(former)
}

/** `user` is `RUN/STEP/ITEM`, `SESSION/TOOL_USE` for an agent's call, or the id of a whole run. */
export function markUsed({ tx, ledger }: ApprovalWriter, approval: ApprovalRecord, user: string): void {
  approval.used_at = tx.now.toISOString()
  approval.used_by = user
  ledger.dirtyApprovals.add(approval)
}

/** For a whole run. Its votes are no longer enough: rules are stricter, or a voter's role has changed. */
export function reopenApproval(
  { tx, ledger }: ApprovalWriter,
  approval: ApprovalRecord,
  { actor, counting, needed }: { readonly actor: Actor; readonly counting: number; readonly needed: number },
): void {
  approval.status = 'pending'
  approval.decided_at = null
  ledger.dirtyApprovals.add(approval)
  tx.notice('approval', approval.id)
  tellRun(tx, approval, 'approval.reopened', { counting, needed })
  tx.append({
    eventType: 'approval.reopened',
    action: 'run',
    status: 'pending',
    actor,
    workflowId: approval.workflow_id,
    runId: approval.run_id,
    metadata: { approval_id: approval.id, needed, counting },
  })
  tx.publish('approval.created', { approval_id: approval.id })
}

type Named = Pick<ApprovalRecord, 'id' | 'run_id'>

/** Call `announceWithdrawn` with the result. */
export const withdrawWhere = (tx: ChainTx, where: RawBuilder<unknown>): Promise<readonly Named[]> =>
  tx.send(sql<Named>`
    update approvals set status = 'cancelled', decided_at = ${tx.now} where ${where} returning id, run_id`)

export function announceWithdrawn(tx: ChainTx, withdrawn: readonly Named[]): void {
  for (const approval of withdrawn) announceDecided(tx, approval, 'cancelled')
}

/** Not for an agent's call, whose client polls. `by` decided, and operators see it in Temporal. */
export function wakeRun(
  tx: ChainTx,
  { run_id, step_id, item_index }: Pick<ApprovalRecord, 'run_id' | 'step_id' | 'item_index'>,
  by?: string,
): void {
  if (run_id === null) return
  const wake: Wake = {
    ...(step_id === null ? {} : { key: wakeKey(step_id, item_index) }),
    ...(by === undefined ? {} : { by }),
  }
  tx.deliver('run.wake', run_id, { ...wake })
}

function close(
  { tx, ledger }: ApprovalWriter,
  approval: ApprovalRecord,
  status: ClosedStatus,
  by?: string,
): void {
  approval.status = status
  approval.decided_at = tx.now.toISOString()
  ledger.dirtyApprovals.add(approval)
  announceDecided(tx, approval, status, by)
}

function tellRun(tx: ChainTx, { id, run_id }: Named, type: string, data: Record<string, unknown>): void {
  if (run_id !== null) tx.event(run_id, type, { approval_id: id, ...data })
}

type ClosedStatus = Exclude<ApprovalStatus, 'pending'>

/** The event that webhooks get for each final status. */
const closingEvents = {
  approved: 'approval.decided',
  rejected: 'approval.decided',
  expired: 'approval.expired',
  cancelled: 'approval.withdrawn',
  answered: 'approval.answered',
  revised: 'approval.decided',
} as const satisfies Record<ClosedStatus, WebhookEvent>

function announceDecided(tx: ChainTx, { id, run_id }: Named, status: ClosedStatus, by?: string): void {
  tx.touched.add(id)
  tx.notice('approval', id)
  tx.publish(closingEvents[status], {
    approval_id: id,
    status,
    ...(by === undefined ? {} : { decided_by: by }),
  })
  tellRun(tx, { id, run_id }, 'approval.decided', { status })
}
