import type { Generated } from 'kysely'

/** Connections of organizations and people to services outside. */
export interface ConnectionsTable {
  id: string
  organization_id: string
  integration: string
  /** The person of a personal connection; null for the organization's. */
  owner_id: string | null
  name: string
  /** The service's name for the account; null if the service gives none. */
  account: string | null
  status: Generated<'active' | 'expired' | 'revoked'>
  /** Where the credential is. */
  backend: 'db' | 'aws_secrets_manager'
  /** JSON of the credential; null if the credential is in another backend or the connection is revoked. */
  credential_sealed: Buffer | null
  /** Counts the credentials of this connection, so that a refresh replaces only the credential that it has read. */
  generation: Generated<number>
  /** The version of the secret in another backend; null: the newest. */
  secret_version: Generated<string | null>
  /** Until when the stored access token may be used; null if no token is stored. */
  access_fresh_until: Generated<Date | null>
  /** Tools for which the authorization server did not grant a right, as of its last answer. */
  lacking: Generated<string[]>
  /** Until when only the process that set this time may ask for a new access token. */
  refreshing_until: Generated<Date | null>
  created_at: Generated<Date>
  created_by: string
  last_used_at: Generated<Date | null>
  revoked_at: Generated<Date | null>
}

/** Authorizations that people have begun in their browser and that are not answered yet. */
export interface ConnectionAttemptsTable {
  /** SHA-256 of the `state`. */
  state_hash: string
  organization_id: string
  /** The person who began the authorization. Only this person can complete it. */
  user_id: string
  integration: string
  tool: string
  scope: 'personal' | 'organization'
  name: string | null
  redirect_uri: string
  /** The verifier of PKCE. */
  verifier_sealed: Buffer
  created_at: Generated<Date>
  expires_at: Date
}

/** Secrets outside the database that are to be removed. */
export interface SecretRemovalsTable {
  connection_id: string
  organization_id: string
  due_at: Date
}
