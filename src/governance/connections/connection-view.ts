import type { Selectable } from 'kysely'
import type { ConnectionsTable } from '../../db/schema/connections.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { Actor } from '../audit/entry.ts'
import type { Acting } from '../access/recheck.ts'

export type ConnectionRow = Selectable<ConnectionsTable>
export type ConnectionScope = 'personal' | 'organization'

export interface ConnectionView {
  readonly id: string
  readonly organization_id: string
  readonly integration: string
  readonly scope: ConnectionScope
  /** null for a connection of the organization. */
  readonly owner_id: string | null
  readonly name: string
  readonly account: string | null
  readonly destination: string
  readonly own_host: boolean
  readonly created_at: string
  readonly last_used_at: string | null
  readonly status: ConnectionRow['status']
  readonly lacking_tools: readonly string[]
}

/** With the address of the person of a personal connection. */
export type ShownConnection = ConnectionView & { readonly owner_email: string | null }

const scopeOf = ({ owner_id }: Pick<ConnectionRow, 'owner_id'>): ConnectionScope =>
  owner_id === null ? 'organization' : 'personal'

export const connectionView = (row: ConnectionRow): ConnectionView => ({
  id: row.id,
  organization_id: row.organization_id,
  integration: row.integration,
  scope: scopeOf(row),
  owner_id: row.owner_id,
  name: row.name,
  account: row.account,
  destination: row.destination,
  own_host: row.own_host,
  created_at: row.created_at.toISOString(),
  last_used_at: row.last_used_at?.toISOString() ?? null,
  status: row.status,
  lacking_tools: row.lacking,
})

export const ownedConnection = (
  row: ConnectionRow & { readonly owner_email: string | null },
): ShownConnection => ({ ...connectionView(row), owner_email: row.owner_email })

export async function shownConnection(tx: ChainTx, row: ConnectionRow): Promise<ShownConnection> {
  const owner = await tx.trx
    .selectFrom('users')
    .select('email as owner_email')
    .where('id', '=', row.owner_id)
    .executeTakeFirst()
  return ownedConnection({ ...row, owner_email: owner?.owner_email ?? null })
}

/** The entry never has the credential. */
export function appendConnectionEvent(
  tx: ChainTx,
  actor: Actor,
  verb: 'created' | 'renamed' | 'revoked' | 'expired',
  row: ConnectionRow,
  more: { readonly tool?: string; readonly replaced_id?: string | null; readonly name?: string } = {},
): void {
  tx.append({
    eventType: `connection.${verb}`,
    action: verb,
    actor,
    metadata: {
      connection_id: row.id,
      integration: row.integration,
      scope: scopeOf(row),
      owner_id: row.owner_id,
      account: row.account,
      destination: row.destination,
      own_host: row.own_host,
      ...more,
    },
  })
}

/**
 * Calls with an expired connection fail with `connection_expired` until somebody connects again. Each refresh of the
 * tokens gives a higher generation: if the connection no longer has that of the failed credential, or is not active,
 * nothing changes. null compares no generation.
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
