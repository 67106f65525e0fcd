import type { Context } from '../../context.ts'
import { runEnded } from '../../contract/status.ts'
import type { AuditDraft } from '../audit.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../identity.ts'
import { hasRole } from '../scopes.ts'
import { isIdle } from './end-cancelled.ts'
import { endRun } from './finish.ts'
import { runAs } from '../standing.ts'

/**
 * Cancels a run (commit point `run.cancel`): from the commit on no new call starts, waiting approvals are withdrawn;
 * Temporal is told through the outbox. A run with no call under way ends in the same transaction, whatever has become of
 * its workers; any other one ends when its calls have, or soon after (end-cancelled.ts). A member cancels own runs, an admin any (contract section 2). Cancelling twice
 * changes nothing.
 */
export async function cancelRun(
  context: Context,
  request: { caller: Caller; runId: string; once?: Once | null },
): Promise<void> {
  const { caller, runId } = request
  await runAs(context, caller, 'run.cancel', async (tx, now) => {
    const run = await tx.trx
      .selectFrom('runs')
      .selectAll()
      .where('id', '=', runId)
      .where('organization_id', '=', caller.organizationId)
      .executeTakeFirst()
    if (run === undefined) throw notFound('run', runId)
    if (run.requested_by !== caller.userId && !hasRole((await now()).role, 'admin'))
      throw new DomainError('insufficient_role', 'cancelling the run of someone else needs the role `admin`')
    // Marked all the same: asked again, the run may have ended meanwhile, which is no reason to refuse then.
    const isDone = run.status === 'cancelled' || !runEnded(run.status)
    if (run.cancel_requested_at !== null && isDone) return request.once?.markActed(tx.trx)
    if (runEnded(run.status))
      throw new DomainError('bad_transition', `the run has ended: it is \`${run.status}\``)
    await tx.trx
      .updateTable('runs')
      .set({
        cancel_requested_at: tx.now,
        cancel_requested_by: caller.userId,
        status_reason: 'the run is being cancelled',
      })
      .where('id', '=', runId)
      .execute()
    if (run.slot === 'queued' || (await isIdle(tx, runId))) {
      tx.append(requested(caller, run))
      // A queued one has no workflow to be told.
      if (run.slot !== 'queued') tx.deliver('run.cancel', runId)
      await endRun(tx, run, 'cancelled', 'the run was cancelled')
      return request.once?.markActed(tx.trx)
    }
    const withdrawn = await tx.trx
      .updateTable('approvals')
      .set({ status: 'cancelled', decided_at: tx.now })
      .where('run_id', '=', runId)
      .where('status', '=', 'pending')
      .returning('id')
      .execute()
    for (const { id } of withdrawn)
      tx.event(runId, 'approval.decided', { approval_id: id, status: 'cancelled' })
    tx.deliver('run.cancel', runId)
    tx.append(requested(caller, run))
    await request.once?.markActed(tx.trx)
  })
}

const requested = (caller: Caller, run: { id: string; workflow_id: string }): AuditDraft => ({
  eventType: 'workflow.cancel',
  action: 'cancel',
  status: 'requested',
  actor: actorOf(caller),
  workflowId: run.workflow_id,
  runId: run.id,
})
