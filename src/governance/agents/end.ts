import type { Changing } from '../context.ts'
import { notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { callerIn, type Asker } from '../../calls/agents/ask.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import { hasRole } from '../access/scopes.ts'
import { sql, type RawBuilder } from 'kysely'
import { announceWithdrawn, withdrawWhere } from '../approvals/moves.ts'
import { isOverSql } from '../approvals/state.ts'
import type { ChainTx } from '../audit/chain-tx.ts'

export interface EndedSession {
  readonly session_run_id: string
  readonly cancelled_approvals: number
}

/**
 * Commit point `agent.session`. Withdraws approvals. The session keeps its labels, and the next call opens it
 * again. Throws `not_found` (also if the person has left the organization) and `insufficient_role`.
 */
export async function endSession(
  context: Changing,
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

/**
 * For ever: all processes deny the session's next call, and its approvals are withdrawn. Can be repeated. Throws
 * `not_found` for another person's session, unless the caller is an admin.
 */
export async function revokeSession(
  context: Acting,
  caller: Caller,
  id: string,
  reason: string,
  once: Once | null,
): Promise<void> {
  await runAs(context, caller, 'agent.session', async (tx, now) => {
    const { role, userId } = await now()
    await once?.markActed(tx.trx)
    const seen = await tx.trx
      .selectFrom('agent_sessions')
      .select('user_id')
      .where('id', '=', id)
      .where('organization_id', '=', caller.organizationId)
      .executeTakeFirst()
    if (seen === undefined || (seen.user_id !== userId && !hasRole(role, 'admin')))
      throw notFound('agent session', id)
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

/**
 * Withdraws pending approvals and approved ones that are not used yet. The same calls then need new approvals
 * (docs/decisions/0059). HTTP requests that wait for the withdrawn approvals are answered.
 */
export const withdrawAll = (tx: ChainTx, sessionId: string): Promise<number> =>
  withdraw(tx, sql`session_id = ${sessionId}`)

/** For a person who has left or may not use agents. Does `withdrawAll` too (docs/decisions/0245). */
export async function endAllOf(
  tx: ChainTx,
  userId: string,
): Promise<{ readonly ended_sessions: number; readonly cancelled_approvals: number }> {
  const { numUpdatedRows } = await tx.trx
    .updateTable('agent_sessions')
    .set({ status: 'ended', ended_at: tx.now })
    .where('organization_id', '=', tx.organizationId)
    .where('user_id', '=', userId)
    .where('status', '=', 'live')
    .executeTakeFirst()
  const cancelled = await withdraw(
    tx,
    sql`session_id in (select id from agent_sessions
                       where organization_id = ${tx.organizationId} and user_id = ${userId})`,
  )
  return { ended_sessions: Number(numUpdatedRows), cancelled_approvals: cancelled }
}

async function withdraw(tx: ChainTx, whose: RawBuilder<unknown>): Promise<number> {
  const withdrawn = await withdrawWhere(
    tx,
    sql`${whose} and superseded_by is null and (
          status = 'pending' or status = 'approved' and used_by is null and not ${isOverSql(sql`${tx.now}`)})`,
  )
  announceWithdrawn(tx, withdrawn)
  return withdrawn.length
}
