import { sql } from 'kysely'
import { runEnded } from '../../../contract/status.ts'
import type { AuditDraft } from '../../audit/entry.ts'
import type { Db } from '../../../db/schema/index.ts'
import { DomainError, notFound } from '../../errors.ts'
import type { Once } from '../../idempotency.ts'
import { actorOf, type Caller } from '../../access/identity.ts'
import { hasRole } from '../../access/scopes.ts'
import { isIdle } from './end-cancelled.ts'
import { announceWithdrawn, withdrawWhere } from '../../approvals/moves.ts'
import { byWhom, endRun } from './finish.ts'
import { runAs, type Acting } from '../../access/recheck.ts'

/**
 * Commit point `run.cancel`. After the commit, no new call starts. Cancelling twice changes nothing. If no
 * call is in progress, the run ends in the same transaction; otherwise after its calls or through
 * `endCancelled`. Throws `not_found`, `insufficient_role`, or `bad_transition` if the run has ended or is an
 * agent's record.
 */
export async function cancelRun(
  context: Acting,
  request: { caller: Caller; runId: string; reason?: string | undefined; once?: Once | null },
): Promise<void> {
  const { caller, runId, reason = '' } = request
  await runAs(context, caller, 'run.cancel', async (tx, now) => {
    const run = await tx.trx
      .selectFrom('runs')
      .selectAll()
      .where('id', '=', runId)
      .where('organization_id', '=', caller.organizationId)
      .executeTakeFirst()
    if (run === undefined) throw await noSuchRun(tx.trx, caller.organizationId, runId)
    if (run.requested_by !== caller.userId && !hasRole((await now()).role, 'admin'))
      throw new DomainError(
        'insufficient_role',
        'you need the role `admin` to cancel a run of another person',
      )
    const isDone = run.status === 'cancelled' || !runEnded(run.status)
    // A repetition of this request must succeed even if the run has ended by then.
    if (run.cancel_requested_at !== null && isDone) return request.once?.markActed(tx.trx)
    if (runEnded(run.status))
      throw new DomainError('bad_transition', `the run has ended: it is \`${run.status}\``)
    const cancellation = { by: caller.email, reason: reason.trim() === '' ? null : reason }
    await tx.trx
      .updateTable('runs')
      .set({
        cancel_requested_at: tx.now,
        cancel_requested_by: caller.userId,
        cancel_reason: cancellation.reason,
        status_reason: `the run is being cancelled ${byWhom(cancellation)}`,
      })
      .where('id', '=', runId)
      .execute()
    if (run.slot === 'queued' || (await isIdle(tx, runId))) {
      tx.append(requested(caller, run, cancellation.reason))
      // A queued run has no Temporal workflow yet.
      if (run.slot !== 'queued') tx.deliver('run.cancel', runId, { by: caller.userId })
      await endRun(tx, run, 'cancelled', `the run was cancelled ${byWhom(cancellation)}`)
      return request.once?.markActed(tx.trx)
    }
    announceWithdrawn(tx, await withdrawWhere(tx, sql`run_id = ${runId} and status = 'pending'`))
    tx.deliver('run.cancel', runId, { by: caller.userId })
    tx.append(requested(caller, run, cancellation.reason))
    await request.once?.markActed(tx.trx)
  })
}

/** The record of an agent session can be read like a run, but only `revoke` stops the session. */
async function noSuchRun(db: Db, organizationId: string, runId: string): Promise<DomainError> {
  const session = await db
    .selectFrom('agent_sessions')
    .select('id')
    .where('run_id', '=', runId)
    .where('organization_id', '=', organizationId)
    .executeTakeFirst()
  if (session === undefined) return notFound('run', runId)
  return new DomainError(
    'bad_transition',
    `\`${runId}\` is the record of an agent session, which cannot be cancelled: stop the session with \`POST /agent-sessions/${session.id}/revoke\``,
  )
}

const requested = (
  caller: Caller,
  run: { id: string; workflow_id: string },
  reason: string | null,
): AuditDraft<'workflow.cancel'> => ({
  eventType: 'workflow.cancel',
  action: 'cancel',
  status: 'requested',
  actor: actorOf(caller),
  workflowId: run.workflow_id,
  runId: run.id,
  metadata: { reason },
})
