import type { Acting } from '../access/recheck.ts'
import { appendConnectionEvent } from './connection-event.ts'
import type { ConnectionRow } from './connection-view.ts'

/**
 * Marks a connection as expired, because the service no longer accepts its credential. Calls with this connection fail
 * with `connection_expired` until somebody connects again. `generation` identifies the refused credential: each new
 * credential of the connection has a higher number. Changes nothing if the connection was replaced or revoked
 * meanwhile, or has another generation. If `generation` is null, the generation is not compared.
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
