import { sql, type Selectable } from 'kysely'
import type { ChangingRuns } from '../../context.ts'
import type { EnterResult } from '../../../contract/messages.ts'
import { runEnded } from '../../../contract/status.ts'
import type { RunsTable } from '../../../db/schema/runs.ts'
import { expireNow } from '../../approvals/expire.ts'
import { markUsed, reopenApproval, writeAtOnce } from '../../approvals/moves.ts'
import { isoTime, loadApproval, type ApprovalRecord } from '../../approvals/records.ts'
import { countingVotes } from '../../approvals/requirement.ts'
import { approvalState } from '../../approvals/state.ts'
import { rejectionBy } from '../../approvals/votes.ts'
import { notFound } from '../../errors.ts'
import { endRun } from '../end/finish.ts'
import { grantSlots, hasFreeSlot, waitsForSlot } from '../../limits/slots.ts'
import type { ChainTx } from '../../audit/chain-tx.ts'
import type { Installation } from '../../tools/connections.ts'
import { runActor } from '../../../calls/runs/ledger-moves.ts'
import { planAgain, readAccepted, requiredNow, tighten, type AcceptedRun } from './plan-again.ts'
import { denialCause, denialMessage } from './refusal.ts'

type Run = Selectable<RunsTable>

/** Commit point `run.enter`. By the current rules, the run can now be denied or need more votes. */
export async function enterRun(context: ChangingRuns, runId: string): Promise<EnterResult> {
  const found = await context.db
    .selectFrom('runs')
    .select(['organization_id', 'status'])
    .where('id', '=', runId)
    .executeTakeFirst()
  if (found === undefined) throw notFound('run', runId)
  const accepted = found.status === 'awaiting_approval' ? await readAccepted(context, runId) : null
  return context.combiner.run(found.organization_id, 'run.enter', async (tx): Promise<EnterResult> => {
    const run = await tx.trx.selectFrom('runs').selectAll().where('id', '=', runId).executeTakeFirstOrThrow()
    if (runEnded(run.status) || run.cancel_requested_at !== null) return { state: 'ended' }
    // A run waits for its own approval from the beginning or never, so `accepted` is not null here.
    return run.status === 'awaiting_approval' && accepted !== null
      ? enterByApproval(tx, context.config.tools, run, accepted)
      : { state: 'go' }
  })
}

async function enterByApproval(
  tx: ChainTx,
  installation: Installation,
  run: Run,
  accepted: AcceptedRun,
): Promise<EnterResult> {
  const found = await loadApproval(tx, sql`run_id = ${run.id} and kind = 'run'`)
  if (found === null) throw new Error(`the run \`${run.id}\` waits for an approval that does not exist`)
  const { votes } = found
  const { analysis, gate } = await planAgain(tx, installation, accepted)
  const required = requiredNow(found.approval, gate.terms, tx.policy)
  const state = approvalState(found.approval, votes, required, tx.now, run.id)
  const isOpen = state === 'pending' || state === 'usable'
  const approval = isOpen ? await tighten(tx, found.approval, required) : found.approval
  if (state === 'rejected') {
    await endRun(tx, run, 'rejected', rejectionBy(approval.votes, 'the run'), null, {
      error_code: 'rejected',
    })
    return { state: 'ended' }
  }
  if (state === 'expired') return endExpired(tx, run, approval)
  const expiresAt = isoTime(approval.expires_at)
  const waits = (waitsFor: 'approval' | 'slot'): EnterResult => ({ state: 'wait', waitsFor, expiresAt })
  if (state !== 'usable') {
    // The votes are no longer enough: rules are stricter now, or a voter's role has changed.
    if (approval.status === 'approved') {
      const counting = countingVotes(votes, approval, required)
      reopenApproval(writeAtOnce(tx), approval, { actor: runActor(run), counting, needed: required.needed })
      await waitAgain(tx, run, gate.waits)
    }
    return waits('approval')
  }
  if (analysis.definitelyDenied) {
    await endRun(tx, run, 'denied', denialMessage(analysis), null, denialCause(analysis))
    return { state: 'ended' }
  }
  if (run.slot !== 'taken' && (run.slot !== null || !(await hasFreeSlot(tx)))) {
    if (run.slot === null) await joinQueue(tx, run, approval.id)
    return waits('slot')
  }
  await start(tx, run, approval)
  return { state: 'go' }
}

async function endExpired(tx: ChainTx, run: Run, approval: ApprovalRecord): Promise<EnterResult> {
  const reason =
    approval.status === 'approved'
      ? 'the approval of the run expired before the run could start'
      : 'nobody approved the run in time'
  if (approval.status === 'pending') expireNow(tx, approval)
  await endRun(tx, run, 'expired', reason, null, { error_code: 'expired' })
  return { state: 'ended' }
}

async function start(tx: ChainTx, run: Run, approval: ApprovalRecord): Promise<void> {
  markUsed(writeAtOnce(tx), approval, run.id)
  await tx.trx
    .updateTable('runs')
    .set({ status: 'running', status_reason: 'the run is in progress', started_at: tx.now, slot: 'taken' })
    .where('id', '=', run.id)
    .execute()
  tx.event(run.id, 'run.started')
  tx.append({
    eventType: 'run.started',
    action: 'start',
    status: 'running',
    actor: runActor(run),
    workflowId: run.workflow_id,
    runId: run.id,
    metadata: { approval_id: approval.id },
  })
}

/** When the run gets a slot, its approval is checked again. */
async function joinQueue(
  tx: ChainTx,
  run: { readonly id: string; readonly workflow_id: string },
  approvalId: string,
): Promise<void> {
  const reason = waitsForSlot(tx.policy.limits.concurrent_executions)
  await tx.trx
    .updateTable('runs')
    .set({ slot: 'waits', status_reason: `approved: ${reason}` })
    .where('id', '=', run.id)
    .execute()
  tx.event(run.id, 'run.queued', { reason })
  tx.append({
    eventType: 'run.queued',
    action: 'start',
    status: 'queued',
    actor: runActor(run),
    workflowId: run.workflow_id,
    runId: run.id,
    metadata: { approval_id: approvalId },
  })
}

async function waitAgain(tx: ChainTx, run: Run, why: string | null): Promise<void> {
  await tx.trx
    .updateTable('runs')
    .set({ slot: null, status_reason: why ?? 'the run waits for more approvals' })
    .where('id', '=', run.id)
    .execute()
  if (run.slot !== null) grantSlots(tx, tx.policy.limits.concurrent_executions)
}
