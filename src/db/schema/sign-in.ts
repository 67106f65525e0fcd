import type { Generated, JSONColumnType } from 'kysely'
import type { Role } from '../../policy/types.ts'

export interface SignInProvidersTable {
  organization_id: string
  issuer: string
  client_id: string
  client_secret_sealed: Buffer | null
  secret_version: string
  groups_claim: string | null
  role_map: JSONColumnType<Record<string, Role>>
  group_map: JSONColumnType<Record<string, string>>
  default_role: Exclude<Role, 'owner'> | null
  checks_factor: boolean
  kind: Generated<'oidc' | 'saml'>
  /** With SAML: where the browser is sent. */
  sso_url: Generated<string | null>
  /** With SAML, in PEM. */
  certificates: Generated<string[] | null>
  created_at: Date
  updated_at: Date
}

export interface SignInDomainsTable {
  organization_id: string
  domain: string
  proof: string
  proven_at: Generated<Date | null>
  proven_by: Generated<'dns' | 'operator' | null>
}

export interface SignInIdentitiesTable {
  organization_id: string
  issuer: string
  subject: string
  user_id: string
  linked_at: Date
}

export interface SignInAttemptsTable {
  /** Lower-case hex SHA-256. */
  state_hash: string
  organization_id: string
  issuer: string
  client_id: string
  return_to: string
  expires_at: Date
}

export interface AuthPasskeysTable {
  id: string
  user_id: string
  credential_id: string
  public_key: Buffer
  counter: number
  name: string
  created_at: Date
  last_used_at: Generated<Date | null>
}

export interface ScimTokensTable {
  id: string
  organization_id: string
  name: string
  /** Lower-case hex SHA-256. */
  hash: string
  created_by: string
  created_at: Date
  expires_at: Date
  last_used_at: Date | null
}

export interface ScimUsersTable {
  organization_id: string
  user_id: string
  external_id: string | null
  created_at: Date
}

export interface ScimGroupsTable {
  group_id: string
  organization_id: string
  display_name: string
  external_id: string | null
}

export interface SignInTables {
  sign_in_providers: SignInProvidersTable
  sign_in_domains: SignInDomainsTable
  sign_in_identities: SignInIdentitiesTable
  sign_in_attempts: SignInAttemptsTable
  auth_passkeys: AuthPasskeysTable
  scim_tokens: ScimTokensTable
  scim_users: ScimUsersTable
  scim_groups: ScimGroupsTable
}
