import type { Context } from '../../context.ts'
import type { EnterResult, HeldFor } from '../../contract/messages.ts'
import { runEnded } from '../../contract/status.ts'
import { expireNow } from '../approvals/expire.ts'
import { countingVotes } from '../approvals/requirement.ts'
import { rejectionBy } from '../approvals/votes.ts'
import type { Role } from '../../policy/types.ts'
import { notFound } from '../errors.ts'
import { endRun } from './finish.ts'
import { grantSlots, hasFreeSlot, waitsForSlot } from '../quotas/slots.ts'
import type { ChainTx } from '../chain-tx.ts'
import { runActor } from './ledger-moves.ts'

/** Lets a run in that waited for its own approval, or says what it waits for (commit point `run.enter`). */
export async function enterRun(context: Context, runId: string): Promise<EnterResult> {
  const found = await context.db
    .selectFrom('runs')
    .select('organization_id')
    .where('id', '=', runId)
    .executeTakeFirst()
  if (found === undefined) throw notFound('run', runId)
  return context.combiner.run(found.organization_id, 'run.enter', async (tx): Promise<EnterResult> => {
    const run = await tx.trx.selectFrom('runs').selectAll().where('id', '=', runId).executeTakeFirstOrThrow()
    if (runEnded(run.status) || run.cancel_requested_at !== null) return { state: 'ended' }
    if (run.status !== 'awaiting_approval') return { state: 'go' }
    const approval = await tx.trx
      .selectFrom('approvals')
      .selectAll()
      .where('run_id', '=', runId)
      .where('kind', '=', 'run')
      .orderBy('id', 'desc')
      .executeTakeFirstOrThrow()
    const votes = await tx.trx
      .selectFrom('approval_votes as v')
      .innerJoin('users as u', 'u.id', 'v.user_id')
      .leftJoin('memberships as m', (join) =>
        join.onRef('m.user_id', '=', 'v.user_id').on('m.organization_id', '=', run.organization_id),
      )
      .select(['v.user_id', 'u.email', 'v.decision', 'v.comment', 'm.role'])
      .where('v.approval_id', '=', approval.id)
      .execute()
    const late = approval.expires_at !== null && approval.expires_at <= tx.now
    if (approval.status === 'rejected') {
      await endRun(tx, run, 'rejected', rejectionBy(votes, 'the run'))
      return { state: 'ended' }
    }
    if (approval.status === 'expired' || late) {
      if (approval.status === 'pending') await expireNow(tx, approval)
      const reason =
        approval.status === 'approved'
          ? 'the approval of the run expired before the run could start'
          : 'nobody approved the run in time'
      await endRun(tx, run, 'expired', reason)
      return { state: 'ended' }
    }
    const expiresAt = approval.expires_at?.toISOString() ?? null
    const waits = (waitsFor: HeldFor): EnterResult => ({ state: 'wait', waitsFor, expiresAt })
    if (approval.status !== 'approved') return waits('approval')
    const roles = new Map(
      votes.flatMap((vote) => (vote.role === null ? [] : [[vote.user_id, vote.role] as [string, Role]])),
    )
    const needed = Math.max(approval.approvals_needed, tx.policy.settings.approval_threshold)
    const counting = countingVotes(
      { votes, requested_by: approval.requested_by },
      approval.approver,
      roles,
      tx.policy.settings,
    )
    if (counting < needed) {
      // Rules or roles have grown stricter since: the same approval waits for the votes that are missing.
      await tx.trx
        .updateTable('approvals')
        .set({ status: 'pending', decided_at: null })
        .where('id', '=', approval.id)
        .execute()
      if (run.slot !== null) await giveSlotBack(tx, runId)
      tx.append({
        eventType: 'approval.reopened',
        action: 'run',
        status: 'pending',
        actor: runActor(run),
        workflowId: run.workflow_id,
        runId,
        metadata: { approval_id: approval.id, needed, counting },
      })
      return waits('approval')
    }
    if (run.slot !== 'taken' && (run.slot !== null || !(await hasFreeSlot(tx)))) {
      if (run.slot === null) await joinQueue(tx, run, approval.id)
      return waits('slot')
    }
    await tx.trx
      .updateTable('approvals')
      .set({ used_at: tx.now, used_by: runId })
      .where('id', '=', approval.id)
      .execute()
    await tx.trx
      .updateTable('runs')
      .set({ status: 'running', status_reason: 'the run is in progress', started_at: tx.now, slot: 'taken' })
      .where('id', '=', runId)
      .execute()
    tx.event(runId, 'run.started')
    tx.append({
      eventType: 'run.started',
      action: 'start',
      status: 'running',
      actor: runActor(run),
      workflowId: run.workflow_id,
      runId,
      metadata: { approval_id: approval.id },
    })
    return { state: 'go' }
  })
}

/** Approved, but there is no free slot: woken when it has one, its approval is judged again then. */
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

async function giveSlotBack(tx: ChainTx, runId: string): Promise<void> {
  await tx.trx
    .updateTable('runs')
    .set({ slot: null, status_reason: 'the run waits for more approvals' })
    .where('id', '=', runId)
    .execute()
  grantSlots(tx, tx.policy.limits.concurrent_executions)
}
