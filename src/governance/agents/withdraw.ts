import { sql, type RawBuilder } from 'kysely'
import { announceWithdrawn, withdrawWhere } from '../approvals/moves.ts'
import { isOverSql } from '../approvals/state.ts'
import type { ChainTx } from '../audit/chain-tx.ts'

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
