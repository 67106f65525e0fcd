import type { AccountEventType } from '../../contract/audit-events.ts'
import type { Generated } from 'kysely'
import type { JSONColumnType } from 'kysely'
import type { Plan } from '../../contract/plan-limits.ts'
import type { Role } from '../../policy/types.ts'

export interface OrganizationsTable {
  id: string
  name: string
  personal: Generated<boolean>
  /** The person who owns this personal organization; null for an organization that is not personal. */
  personal_of: Generated<string | null>
  plan: Generated<Plan>
  /** Only values that differ from the defaults. */
  settings: JSONColumnType<Record<string, unknown>, string | undefined>
  /** Limits set by an owner, by name. */
  quota_overrides: JSONColumnType<Record<string, number>, string | undefined>
  /** Task queue of the organization's own workers; null if it has no workers of its own. */
  task_queue: string | null
  /** The person who created the organization; null if it is personal or an operator created it. */
  created_by: Generated<string | null>
  created_at: Generated<Date>
}

/** A tool of the installation that an organization may use. */
export interface InstallationConnectionsTable {
  organization_id: string
  tool: string
  created_at: Generated<Date>
}

export interface UsersTable {
  id: string
  email: string
  name: Generated<string>
  email_verified: Generated<boolean>
  image: Generated<string | null>
  two_factor_enabled: Generated<boolean>
  created_at: Generated<Date>
  updated_at: Generated<Date>
}

/** A table of the sign-in library, with only the columns that we use. */
export interface AuthAccountsTable {
  id: string
  account_id: string
  provider_id: string
  user_id: string
  /** `saltHex:keyHex`. */
  password: string | null
}

export interface InvitationsTable {
  id: string
  organization_id: string
  email: string
  role: Role
  /** Lower-case hex SHA-256 of the token. */
  token_hash: string
  invited_by: string
  /** null if the link was not mailed but handed over in person. */
  mailed_at: Date | null
  created_at: Generated<Date>
  expires_at: Date
  accepted_at: Date | null
  accepted_by: string | null
  revoked_at: Date | null
}

/** An account event that is not yet in its organization's audit chain; written by triggers. */
export interface AccountEventsTable {
  id: Generated<number>
  organization_id: string
  user_id: string
  type: AccountEventType
  session_id: string | null
  api_key_id: string | null
  ip_address: string | null
  at: Generated<Date>
}

export interface MembershipsTable {
  organization_id: string
  user_id: string
  role: Role
  created_at: Generated<Date>
  /** Slack's id of the person; null: not linked. */
  slack_account: Generated<string | null>
  slack_linked_at: Generated<Date | null>
}

/** A Slack account that a member says is theirs, until they type in the code that was sent to it. */
export interface SlackClaimsTable {
  /** The id of the message that brings the code. */
  id: string
  organization_id: string
  user_id: string
  slack_account: string
  /** Eight digits. */
  code: string
  wrong_codes: Generated<number>
  created_at: Date
  expires_at: Date
  /** null while the code may still be typed in. */
  ended: Generated<'linked' | 'replaced' | null>
}

export interface ApiKeysTable {
  id: string
  organization_id: string
  user_id: string
  name: string
  /** Lower-case hex SHA-256 of the whole key. */
  hash: string
  last4: string
  scopes: string[]
  created_at: Generated<Date>
  created_by: string | null
  expires_at: Date | null
  revoked_at: Date | null
  /** Set together with `revoked_at` when the key is deleted: it cannot be made active again. */
  deleted_at: Generated<Date | null>
  last_used_at: Date | null
  /** When the key was last made or confirmed with a second factor; null: never. */
  factor_confirmed_at: Generated<Date | null>
}
