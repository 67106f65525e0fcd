import { sql } from 'kysely'
import type { ChainTx } from '../chain-tx.ts'

/**
 * Takes what waits in these sessions out of the inbox, and back what was approved and not used yet: a session that goes on
 * under its id asks anew. Whoever waits is told. Resolves to how many there were.
 */
export async function withdrawAll(tx: ChainTx, sessionIds: readonly string[]): Promise<number> {
  const { rows } = await sql<{ id: string }>`
    update approvals set status = 'cancelled', decided_at = ${tx.now}
    where session_id = any(${sessionIds}::text[]) and superseded_by is null
      and (status = 'pending' or status = 'approved' and used_by is null and coalesce(expires_at > ${tx.now}, true))
    returning id`.execute(tx.trx)
  for (const { id } of rows) tx.touched.add(id)
  return rows.length
}

/** The same for all that a person's agents have asked for in the organization: nobody is left who could ask again. */
export async function withdrawAllOf(tx: ChainTx, userId: string): Promise<number> {
  const sessions = await tx.trx
    .selectFrom('agent_sessions')
    .select('id')
    .where('organization_id', '=', tx.organizationId)
    .where('user_id', '=', userId)
    .execute()
  return withdrawAll(
    tx,
    sessions.map(({ id }) => id),
  )
}
