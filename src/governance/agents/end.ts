import type { Context } from '../context.ts'
import { notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { callerIn, type Asker } from '../../calls/agents/ask.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import { withdrawAll } from './withdraw.ts'

export interface EndedSession {
  readonly session_run_id: string
  readonly cancelled_approvals: number
}

/**
 * Commit point `agent.session`. Withdraws approvals. The session keeps its labels, and the next call opens it
 * again. Throws `not_found` (also if the person has left the organization) and `insufficient_role`.
 */
export async function endSession(
  context: Pick<Context, 'combiner' | 'config' | 'db'>,
  asker: Asker,
  {
    session_id: sessionId,
    reason = '',
  }: { readonly session_id: string; readonly reason?: string | undefined },
  once: Once | null,
): Promise<EndedSession> {
  const known = await context.db
    .selectFrom('agent_sessions')
    .select(['id', 'organization_id', 'run_id'])
    .where('user_id', '=', asker.identity.user.id)
    .where('session_id', '=', sessionId)
    .executeTakeFirst()
  if (known === undefined) throw notFound('agent session', sessionId)
  const caller = callerIn(asker, known.organization_id)
  return runAs(context, caller, 'agent.session', async (tx) => {
    const live = await tx.trx
      .updateTable('agent_sessions')
      .set({ status: 'ended', ended_at: tx.now })
      .where('id', '=', known.id)
      .where('status', '=', 'live')
      .returning('id')
      .executeTakeFirst()
    // Only a live session can have pending or unused approvals.
    const cancelled = live === undefined ? 0 : await withdrawAll(tx, known.id)
    if (live !== undefined)
      tx.append({
        eventType: 'agent_session.ended',
        action: 'end',
        status: 'success',
        actor: actorOf(caller),
        runId: known.run_id,
        metadata: { session_id: known.id, reason, cancelled_approvals: cancelled },
      })
    const ended = { session_run_id: known.run_id, cancelled_approvals: cancelled }
    await once?.markActed(tx.trx, ended)
    return ended
  })
}

/** For ever: all processes deny the session's next call, and its approvals are withdrawn. Can be repeated. */
export async function revokeSession(
  context: Acting,
  caller: Caller,
  id: string,
  reason: string,
  once: Once | null,
): Promise<void> {
  await runAs(context, caller, 'agent.session', async (tx) => {
    await once?.markActed(tx.trx)
    const revoked = await tx.trx
      .updateTable('agent_sessions')
      .set((eb) => ({
        status: 'revoked' as const,
        revoked_by: caller.userId,
        revoke_reason: reason,
        ended_at: eb.fn.coalesce('ended_at', eb.val(tx.now)),
      }))
      .where('id', '=', id)
      .where('organization_id', '=', caller.organizationId)
      .where('status', '<>', 'revoked')
      .returning('run_id')
      .executeTakeFirst()
    if (revoked === undefined) return
    const cancelled = await withdrawAll(tx, id)
    tx.append({
      eventType: 'agent_session.revoked',
      action: 'revoke',
      status: 'success',
      actor: actorOf(caller),
      runId: revoked.run_id,
      metadata: { session_id: id, reason, cancelled_approvals: cancelled },
    })
  })
}
