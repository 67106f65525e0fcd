import type { Generated } from 'kysely'

/** Connections of organizations and people to services outside. */
export interface ConnectionsTable {
  id: string
  organization_id: string
  integration: string
  /** The person of a personal connection; null for the organization's. */
  owner_id: string | null
  name: string
  /** As the service names the account; null if it does not say. */
  account: string | null
  status: Generated<'active' | 'expired' | 'revoked'>
  /** Where the credential is. */
  backend: 'db' | 'aws_secrets_manager'
  /** JSON of the credential; null in another backend and once it is revoked. */
  credential_sealed: Buffer | null
  created_at: Generated<Date>
  created_by: string
  last_used_at: Generated<Date | null>
  revoked_at: Generated<Date | null>
}

/** Secrets outside the database that are to be removed. */
export interface SecretRemovalsTable {
  connection_id: string
  organization_id: string
  due_at: Date
}
