import type { Selectable } from 'kysely'
import type { Integration } from '../../tools/kit/tool.ts'
import type { ConnectionsTable } from '../../db/schema/connections.ts'

export type ConnectionRow = Selectable<ConnectionsTable>
export type ConnectionScope = 'personal' | 'organization'

/** A connection as the API shows it. It never contains the credential. */
export interface ConnectionView {
  readonly id: string
  readonly organization_id: string
  readonly integration: Integration
  readonly scope: ConnectionScope
  /** The person who owns a personal connection. Is null for a connection of the organization. */
  readonly owner_id: string | null
  readonly name: string
  readonly account: string | null
  readonly destination: string
  readonly own_host: boolean
  readonly created_at: string
  readonly last_used_at: string | null
  readonly status: ConnectionRow['status']
}

export const scopeOf = ({ owner_id }: Pick<ConnectionRow, 'owner_id'>): ConnectionScope =>
  owner_id === null ? 'organization' : 'personal'

export const connectionView = (row: ConnectionRow): ConnectionView => ({
  id: row.id,
  organization_id: row.organization_id,
  integration: row.integration as Integration,
  scope: scopeOf(row),
  owner_id: row.owner_id,
  name: row.name,
  account: row.account,
  destination: row.destination,
  own_host: row.own_host,
  created_at: row.created_at.toISOString(),
  last_used_at: row.last_used_at?.toISOString() ?? null,
  status: row.status,
})
