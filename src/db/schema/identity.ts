import type { Generated } from 'kysely'
import type { JSONColumnType } from 'kysely'
import type { Role } from '../../policy/types.ts'

export const plans = ['free', 'pro', 'enterprise'] as const
export type Plan = (typeof plans)[number]

export interface OrganizationsTable {
  id: string
  name: string
  personal: Generated<boolean>
  plan: Generated<Plan>
  /** Only what differs from the defaults (governance/settings.ts). */
  settings: JSONColumnType<Record<string, unknown>, string | undefined>
  /** Limits set by an owner, by name (governance/quotas/limits.ts). */
  quota_overrides: JSONColumnType<Record<string, number>, string | undefined>
  created_at: Generated<Date>
}

export interface UsersTable {
  id: string
  email: string
  name: Generated<string>
  password_hash: string | null
  created_at: Generated<Date>
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
}
