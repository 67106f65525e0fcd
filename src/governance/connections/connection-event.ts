import type { ChainTx } from '../audit/chain-tx.ts'
import type { Actor } from '../audit/entry.ts'
import { scopeOf, type ConnectionRow } from './connection-view.ts'

/** Appends an audit entry for an event of a connection. The entry never contains the credential. */
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
    status: 'success',
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
