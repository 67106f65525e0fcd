import { sql, type RawBuilder } from 'kysely'
import type { ChainTx } from '../chain-tx.ts'

/**
 * Takes what waits in a session out of the inbox, and back what was approved and not used yet: a session that goes on under
 * its id asks anew (docs/decisions/0059). Whoever waits is told. Resolves to how many there were.
 */
export const withdrawAll = (tx: ChainTx, sessionId: string): Promise<number> =>
  withdraw(tx, sql`session_id = ${sessionId}`)

/** The same for all that a person's agents have asked for in the organization: nobody is left who could ask again. */
export const withdrawAllOf = (tx: ChainTx, userId: string): Promise<number> =>
  withdraw(
    tx,
    sql`session_id in (select id from agent_sessions
                       where organization_id = ${tx.organizationId} and user_id = ${userId})`,
  )

async function withdraw(tx: ChainTx, whose: RawBuilder<unknown>): Promise<number> {
  const { rows } = await sql<{ id: string }>`
    update approvals set status = 'cancelled', decided_at = ${tx.now}
    where ${whose} and superseded_by is null
      and (status = 'pending' or status = 'approved' and used_by is null and coalesce(expires_at > ${tx.now}, true))
    returning id`.execute(tx.trx)
  for (const { id } of rows) tx.touched.add(id)
  return rows.length
}
