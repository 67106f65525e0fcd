import type { Generated } from 'kysely'
import type { JSONColumnType } from 'kysely'
import type { Role } from '../../policy/types.ts'

export const plans = ['free', 'pro', 'enterprise'] as const
export type Plan = (typeof plans)[number]

export interface OrganizationsTable {
  id: string
  name: string
  personal: Generated<boolean>
  /** Whose personal organization it is; null for any other. */
  personal_of: Generated<string | null>
  plan: Generated<Plan>
  /** Only what differs from the defaults (governance/settings.ts). */
  settings: JSONColumnType<Record<string, unknown>, string | undefined>
  /** Limits set by an owner, by name (governance/quotas/limits.ts). */
  quota_overrides: JSONColumnType<Record<string, number>, string | undefined>
  /** Where its runs start, when it has workers of its own; else null (governance/task-queue.ts). */
  task_queue: string | null
  /** Who has made it; null for a personal one, and for one that an operator has made. */
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

/** Of the sign-in library; only what we write or read ourselves. */
export interface AuthAccountsTable {
  id: string
  account_id: string
  provider_id: string
  user_id: string
  /** `saltHex:keyHex` (governance/password.ts). */
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
  /** null: the link was handed over. */
  mailed_at: Date | null
  created_at: Generated<Date>
  expires_at: Date
  accepted_at: Date | null
  accepted_by: string | null
  revoked_at: Date | null
}

/** What happened to an account and is not yet in the chain of the organization it concerns; written by triggers. */
export interface AccountEventsTable {
  id: Generated<number>
  organization_id: string
  user_id: string
  type: string
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
  last_used_at: Date | null
  /** When a second factor of its person stood behind it; null: never. */
  factor_confirmed_at: Generated<Date | null>
}
