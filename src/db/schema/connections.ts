import type { Generated } from 'kysely'

/** Connections of organizations and people to outside services. */
export interface ConnectionsTable {
  id: string
  organization_id: string
  integration: string
  /** The person to whom a personal connection belongs; null for a connection of the organization. */
  owner_id: string | null
  name: string
  /** The service's name for the account; null if the service gives none. */
  account: string | null
  /** The host to which calls go, with the port if it is not the default. */
  destination: string
  /** True if the host is the vendor's, or one that the operator has set for the service. */
  own_host: boolean
  status: Generated<'active' | 'expired' | 'revoked'>
  /** Says where the credential is stored. */
  backend: 'db' | 'aws_secrets_manager'
  /** JSON of the credential; null if the credential is in another backend or the connection is revoked. */
  credential_sealed: Buffer | null
  /**
   * Increases with each new credential of the connection. A refresh that has read an older credential finds another
   * number, and does not overwrite the new credential.
   */
  generation: Generated<number>
  /** The version of the credential (`KeptSecret`). */
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

/** Authorizations that people have begun in their browser. The authorization server has not answered them yet. */
export interface ConnectionAttemptsTable {
  /** SHA-256 of the OAuth parameter `state`. */
  state_hash: string
  organization_id: string
  /** The person who began the authorization. Only this person can complete it. */
  user_id: string
  integration: string
  tool: string
  scope: 'personal' | 'organization'
  name: string | null
  redirect_uri: string
  /** The code verifier of PKCE. */
  verifier_sealed: Buffer
  created_at: Generated<Date>
  expires_at: Date
}

/** Secrets outside the database that the service removes at `due_at`. Deleting the row cancels the removal. */
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
