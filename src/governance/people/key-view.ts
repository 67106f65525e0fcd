import type { Selectable } from 'kysely'
import type { ApiKeysTable } from '../../db/schema/identity.ts'
import { isAgentsOnly } from '../access/scopes.ts'

/**
 * An API key in the API's answers. It never contains the secret, because the database stores only a hash of the secret.
 */
export interface KeyView {
  readonly id: string
  readonly organization_id: string
  readonly user_id: string
  readonly name: string
  readonly last4: string
  readonly scopes: readonly string[]
  readonly active: boolean
  readonly created_at: string
  readonly expires_at: string | null
  readonly revoked_at: string | null
  readonly last_used_at: string | null
  /** The time when the key's person confirmed the key with a second factor. Is null if the key is not confirmed. */
  readonly factor_confirmed_at: string | null
  /** Whether the organization refuses this key until the key's person confirms it with a second factor. */
  readonly needs_confirmation: boolean
}

export function keyView(
  row: Omit<Selectable<ApiKeysTable>, 'hash'>,
  now: Date,
  factorRequired: boolean,
): KeyView {
  return {
    id: row.id,
    organization_id: row.organization_id,
    user_id: row.user_id,
    name: row.name,
    last4: row.last4,
    scopes: row.scopes,
    active: row.revoked_at === null && (row.expires_at === null || row.expires_at > now),
    created_at: row.created_at.toISOString(),
    expires_at: row.expires_at?.toISOString() ?? null,
    revoked_at: row.revoked_at?.toISOString() ?? null,
    last_used_at: row.last_used_at?.toISOString() ?? null,
    factor_confirmed_at: row.factor_confirmed_at?.toISOString() ?? null,
    needs_confirmation: factorRequired && row.factor_confirmed_at === null && !isAgentsOnly(row.scopes),
  }
}
