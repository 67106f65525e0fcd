import type { AccountEventType } from '../../contract/audit-events.ts'
import type { Generated } from 'kysely'
import type { JSONColumnType } from 'kysely'
import type { Plan } from '../../contract/plan-limits.ts'
import type { AgentAccess, Role } from '../../policy/types.ts'
import type { ManagedColumn } from './policy.ts'

export interface OrganizationsTable {
  id: string
  name: string
  personal: Generated<boolean>
  personal_of: Generated<string | null>
  plan: Generated<Plan>
  /** Only the settings that differ from the defaults. */
  settings: JSONColumnType<Record<string, unknown>, string | undefined>
  /** Set by an owner. Each key is the name of a limit. */
  quota_overrides: JSONColumnType<Record<string, number>, string | undefined>
  /** Null if the organization has no workers of its own. */
  task_queue: string | null
  /** Null if the organization is personal or an operator created it. */
  created_by: Generated<string | null>
  created_at: Generated<Date>
  /** The file that decides the settings. */
  managed_by: ManagedColumn
}

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
  /** Whether the person could sign up only because of an invitation. */
  invited: Generated<boolean>
  /** IANA name; null: UTC. */
  time_zone: Generated<string | null>
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
  /** Lower-case hex SHA-256. */
  token_hash: string
  /** The hash of what only the mail has. Null if a person hands over the link. */
  proof_hash: Generated<string | null>
  invited_by: string
  /** Null if a person hands over the link instead. */
  mailed_at: Date | null
  to_stranger: Generated<boolean>
  created_at: Generated<Date>
  expires_at: Date
  accepted_at: Date | null
  accepted_by: string | null
  revoked_at: Date | null
}

/** An account event that is not in its organization's audit chain yet. Triggers insert the rows. */
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

export interface RemovedMembersTable {
  organization_id: string
  user_id: string
}

export interface MembershipsTable {
  organization_id: string
  user_id: string
  role: Role
  created_at: Generated<Date>
  slack_account: Generated<string | null>
  slack_linked_at: Generated<Date | null>
}

/** A program: a row of `users` that cannot sign in. */
export interface ServiceAccountsTable {
  id: string
  organization_id: string
  name: string
  created_by: string
  created_at: Date
  deleted_at: Generated<Date | null>
}

/** The service sends a code to the account. If the member types it in, the account is linked. */
export interface SlackClaimsTable {
  id: string
  organization_id: string
  user_id: string
  slack_account: string
  code: string
  wrong_codes: Generated<number>
  /** The admin who links the account with a test message. Null if the member proves it with the code. */
  asked_by: Generated<string | null>
  created_at: Date
  expires_at: Date
  /** null for an open claim, and also for one that has expired. */
  ended: Generated<'linked' | 'replaced' | null>
}

export interface GroupsTable {
  id: string
  organization_id: string
  name: string
  description: Generated<string>
  /** With `deny`, a rule must allow each call of an agent of a member. */
  default_agent_access: Generated<AgentAccess>
  created_by: string
  created_at: Date
  managed_by: ManagedColumn
}

/** A member is away, and the deputy decides what they could decide. */
export interface AbsencesTable {
  organization_id: string
  user_id: string
  deputy: string
  from_at: Date
  until_at: Date
  set_at: Date
}

export interface GroupMembersTable {
  group_id: string
  organization_id: string
  user_id: string
  added_by: string
  added_at: Date
}

/** A terminal that waits until a person signs it in, or that has been. */
export interface TerminalLoginsTable {
  code_hash: string
  key_hash: string
  last4: string
  machine: string
  address: string
  status: Generated<'open' | 'approved' | 'denied'>
  key_id: string | null
  created_at: Date
  expires_at: Date
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
  /** `revoked_at` is set too. A deleted key cannot be made active again. */
  deleted_at: Generated<Date | null>
  last_used_at: Date | null
  /** With a second factor, at its creation or later; null if its current rights are not confirmed. */
  factor_confirmed_at: Generated<Date | null>
  /** Acts only in its organization, because a session of that organization's provider made it. */
  bound: Generated<boolean>
  /** With `deny`, a rule must allow each call of an agent that asks with the key. */
  default_agent_access: Generated<AgentAccess>
}

export interface IdentityTables {
  organizations: OrganizationsTable
  users: UsersTable
  auth_accounts: AuthAccountsTable
  invitations: InvitationsTable
  account_events: AccountEventsTable
  memberships: MembershipsTable
  removed_members: RemovedMembersTable
  slack_claims: SlackClaimsTable
  groups: GroupsTable
  absences: AbsencesTable
  group_members: GroupMembersTable
  service_accounts: ServiceAccountsTable
  api_keys: ApiKeysTable
  terminal_logins: TerminalLoginsTable
  installation_connections: InstallationConnectionsTable
}
