import type { Acting } from '../access/recheck.ts'
import { appendConnectionEvent } from './connection-event.ts'
import type { ConnectionRow } from './connection-view.ts'

/**
 * Marks a connection as expired, because its credential no longer works. Calls with this connection fail with
 * `connection_expired` until somebody connects again. `generation` is the generation of the credential that failed.
 * Each refresh of the tokens gives the connection a higher generation. If the connection has another generation now, or
 * is no longer active, changes nothing. If `generation` is null, the generation is not compared.
 */
export async function expireConnection(
  context: Pick<Acting, 'combiner'>,
  { id, organization_id }: Pick<ConnectionRow, 'id' | 'organization_id'>,
  generation: number | null = null,
): Promise<void> {
  await context.combiner.run(organization_id, 'org.change', async (tx) => {
    const row = await tx.trx
      .updateTable('connections')
      .set({ status: 'expired' })
      .where('id', '=', id)
      .where('status', '=', 'active')
      .$if(generation !== null, (same) => same.where('generation', '=', generation as number))
      .returningAll()
      .executeTakeFirst()
    if (row === undefined) return
    tx.policyChanged()
    appendConnectionEvent(tx, { type: 'system', id: 'worker' }, 'expired', row)
  })
}
