import type { Generated } from 'kysely'

export interface ConnectionsTable {
  id: string
  organization_id: string
  integration: string
  /** Null for a connection of the organization. */
  owner_id: string | null
  name: string
  account: string | null
  /** With the port if it is not the default. */
  destination: string
  /** The vendor's host, or one that the operator has set. */
  own_host: boolean
  status: Generated<'active' | 'expired' | 'revoked'>
  backend: 'db' | 'aws_secrets_manager'
  /** JSON; null if it is in another backend or the connection is revoked. */
  credential_sealed: Buffer | null
  /** A refresh with an older credential finds another number, and does not overwrite the new one. */
  generation: Generated<number>
  secret_version: Generated<string | null>
  /** The stored access token may be used until this time; null if no token is stored. */
  access_fresh_until: Generated<Date | null>
  /** Tools that need a right which the authorization server did not grant in its last answer. */
  lacking: Generated<string[]>
  /** Until this time, only one process may ask for a new access token: the process that set this time. */
  refreshing_until: Generated<Date | null>
  created_at: Generated<Date>
  created_by: string
  last_used_at: Generated<Date | null>
  revoked_at: Generated<Date | null>
}

/** Begun in the browser, and not answered by the authorization server yet. */
export interface ConnectionAttemptsTable {
  /** SHA-256 of the OAuth parameter `state`. */
  state_hash: string
  organization_id: string
  /** Only the person who began the authorization can complete it. */
  user_id: string
  integration: string
  tool: string
  scope: 'personal' | 'organization'
  name: string | null
  redirect_uri: string
  verifier_sealed: Buffer
  created_at: Generated<Date>
  expires_at: Date
}

/** Outside the database, removed at `due_at`. Deleting the row cancels the removal. */
export interface SecretRemovalsTable {
  connection_id: string
  organization_id: string
  due_at: Date
}

export interface ConnectionsTables {
  connections: ConnectionsTable
  secret_removals: SecretRemovalsTable
  connection_attempts: ConnectionAttemptsTable
}
