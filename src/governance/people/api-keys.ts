import { sql, type Selectable } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import { newId } from '../../contract/ids.ts'
import type { ApiKeysTable } from '../../db/schema/identity.ts'
import { DomainError, notFound, type ErrorDetail, errorAt } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { actorOf, newApiKey, type Caller } from '../access/identity.ts'
import { listPage, type Page, type PageRequest } from '../page.ts'
import { requireProvenCaller } from '../access/address-proof.ts'
import { requiresFactor } from '../access/second-factor.ts'
import { covers, hasRole, roleOfScope, isAgentsOnly } from '../access/scopes.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { growAs } from '../limits/storage.ts'
import { runAs, type PresentCaller, type Acting } from '../access/recheck.ts'

export interface KeyChange {
  readonly name?: string | undefined
  readonly scopes?: readonly string[] | undefined
  /** null means that the key never expires. */
  readonly expiresAt?: Date | null | undefined
  /** false revokes the key, true restores it. */
  readonly active?: boolean | undefined
  /** Deletes the key, so that it can never be made active again. Needs `active: false`. */
  readonly isDeletion?: true
}

/**
 * Creates a key for the caller in the organization.
 *
 * - Throws `missing_scope` if the new key's scopes exceed the caller's scopes, and `insufficient_role` if they exceed
 *   the caller's role. The error has a detail for each such scope.
 * - Throws `insufficient_role` if the new key expires later than the key that the caller uses.
 * - Throws `validation_error` if the new key expires in the past.
 * - Throws `conflict` while the caller's address is not confirmed. The person who really has this address may take over
 *   the account later, and the account must not contain a stranger's key then.
 */
export async function createApiKey(
  context: Acting,
  caller: Caller,
  input: { readonly name: string; readonly scopes: readonly string[]; readonly expiresAt: Date | null },
  once: Once | null = null,
): Promise<KeyView & { readonly secret: string }> {
  const { secret, hash, last4 } = newApiKey()
  return growAs(context, caller, 'org.change', {
    action: 'create',
    async work(tx, now) {
      const present = await now()
      requireWithin(present, input.scopes)
      requireNotAfter(present, input.expiresAt)
      requireAhead(tx.now, input.expiresAt)
      await requireProvenCaller(tx, present)
      const row = {
        id: newId('key'),
        organization_id: caller.organizationId,
        user_id: caller.userId,
        name: input.name,
        hash,
        last4,
        scopes: [...new Set(input.scopes)].sort(),
        created_at: tx.now,
        created_by: caller.userId,
        expires_at: input.expiresAt,
        revoked_at: null,
        deleted_at: null,
        last_used_at: null,
        // The new key is confirmed if the caller's session or key is backed by a second factor.
        factor_confirmed_at: present.hasFactor ? tx.now : null,
      }
      await tx.trx.insertInto('api_keys').values(row).execute()
      appendKeyEvent(tx, caller, 'created', row)
      return keepMade(once, tx, { ...keyView(row, tx.now, present.factorRequired), secret })
    },
  })
}

/** Lists keys, newest first. An owner gets all keys of the organization, and other members only their own. */
export async function listApiKeys(db: Db, caller: Caller, page: PageRequest): Promise<Page<KeyView>> {
  const query = db
    .selectFrom('api_keys')
    .selectAll()
    .select(sql<Date>`clock_timestamp()`.as('now'))
    .select(
      sql<boolean>`(select ${requiresFactor} from organizations o where o.id = api_keys.organization_id)`.as(
        'required',
      ),
    )
    .where('organization_id', '=', caller.organizationId)
    .$if(!hasRole(caller.role, 'owner'), (own) => own.where('user_id', '=', caller.userId))
  return listPage(db, query, 'key', page, (row) => keyView(row, row.now, row.required))
}

/**
 * Changes one of the caller's keys. An owner may also change the keys of other people, but may not add rights to these
 * keys.
 *
 * - Throws `not_found` if there is no such key, or if the caller may not change the key.
 * - Throws `conflict` for a deleted key.
 * - Throws `validation_error` for a new time of expiry in the past.
 * - Throws `missing_scope` or `insufficient_role` if the scopes of the changed key exceed the caller's scopes or role.
 *   A change that only revokes the key is always allowed.
 * - Throws `insufficient_role` if the change adds rights to another person's key.
 * - Throws `insufficient_role` if the change adds rights and the key expires later than the key that the caller uses.
 */
export async function changeApiKey(
  context: Acting,
  caller: Caller,
  id: string,
  change: KeyChange,
): Promise<KeyView> {
  return runAs(context, caller, 'org.change', async (tx, now) => {
    const present = await now()
    const row = await lockKey(tx, present, id)
    if (row.deleted_at !== null && !change.isDeletion)
      throw new DomainError('conflict', 'the key was deleted: create a new one')
    const scopes = change.scopes === undefined ? row.scopes : [...new Set(change.scopes)].sort()
    const { isDeletion = false, ...fields } = change
    const onlyRevokes =
      fields.active === false && Object.values(fields).filter((value) => value !== undefined).length === 1
    if (!onlyRevokes) requireWithin(present, scopes)
    const more = moreIn(row, change)
    if (row.user_id !== caller.userId && more.length > 0)
      throw new DomainError(
        'insufficient_role',
        'you can only reduce the rights of another person’s key',
        more,
      )
    if (more.length > 0)
      requireNotAfter(present, change.expiresAt === undefined ? row.expires_at : change.expiresAt)
    // A client may send the stored time of an expired key back, for example to rename the key.
    if (change.expiresAt?.getTime() !== row.expires_at?.getTime())
      requireAhead(tx.now, change.expiresAt ?? null)
    const next = {
      ...row,
      name: change.name ?? row.name,
      scopes,
      expires_at: change.expiresAt === undefined ? row.expires_at : change.expiresAt,
      revoked_at:
        change.active === undefined ? row.revoked_at : change.active ? null : (row.revoked_at ?? tx.now),
      deleted_at: isDeletion ? (row.deleted_at ?? tx.now) : null,
      // If rights are added without a second factor, the key is no longer confirmed.
      factor_confirmed_at: more.length > 0 && !present.hasFactor ? null : row.factor_confirmed_at,
    }
    const { name, expires_at, revoked_at, deleted_at, factor_confirmed_at } = next
    await tx.trx
      .updateTable('api_keys')
      .set({ name, scopes, expires_at, revoked_at, deleted_at, factor_confirmed_at })
      .where('id', '=', id)
      .execute()
    appendKeyEvent(tx, caller, verbOf(row, next), next)
    return keyView(next, tx.now, present.factorRequired)
  })
}

/**
 * Confirms one of the caller's keys with a second factor. An organization that requires a second factor then accepts
 * the key again. The access table (api/access.ts) requires a sign-in session that was opened with a second factor.
 * Throws `insufficient_role` for another person's key.
 */
export async function confirmApiKey(
  context: Acting,
  caller: Caller,
  id: string,
  once: Once | null = null,
): Promise<KeyView> {
  return runAs(context, caller, 'org.change', async (tx, now) => {
    const present = await now()
    const row = await lockKey(tx, present, id)
    if (row.user_id !== caller.userId) {
      throw errorAt('insufficient_role', 'user_id', 'only the key’s person may confirm it')
    }
    const next = { ...row, factor_confirmed_at: tx.now }
    await tx.trx.updateTable('api_keys').set({ factor_confirmed_at: tx.now }).where('id', '=', id).execute()
    appendKeyEvent(tx, caller, 'confirmed', next)
    return keepMade(once, tx, keyView(next, tx.now, present.factorRequired))
  })
}

/** Revokes a key for ever: it cannot become active again. Every process refuses the key after the commit. */
export async function removeApiKey(context: Acting, caller: Caller, id: string): Promise<void> {
  await changeApiKey(context, caller, id, { active: false, isDeletion: true })
}

function verbOf(
  before: { revoked_at: Date | null },
  after: { revoked_at: Date | null },
): 'revoked' | 'reactivated' | 'updated' {
  if (before.revoked_at === null && after.revoked_at !== null) return 'revoked'
  return before.revoked_at !== null && after.revoked_at === null ? 'reactivated' : 'updated'
}

function requireWithin(caller: Caller, scopes: readonly string[]): void {
  // A sign-in session has all scopes. The check of the role below then limits the key's scopes.
  const held = caller.keyId === null ? scopes : caller.scopes
  const beyond = scopes.filter((scope) => !covers(held, scope))
  if (beyond.length > 0) {
    const details = beyond.map((scope) => ({ path: scope, message: `your own key lacks \`${scope}\`` }))
    throw new DomainError(
      'missing_scope',
      'a key cannot be broader than the key that makes or changes it',
      details,
    )
  }
  const above = scopes.filter((scope) => !hasRole(caller.role, roleOfScope(scope)))
  if (above.length === 0) return
  const details = above.map((scope) => ({ path: scope, message: `needs the role \`${roleOfScope(scope)}\`` }))
  throw new DomainError(
    'insufficient_role',
    'a key cannot carry scopes that your role has no use for',
    details,
  )
}

/**
 * Throws `insufficient_role` if a key would expire later than the key that the caller uses. If the caller is signed in
 * and uses no key, any time is allowed.
 */
function requireNotAfter({ keyExpiresAt }: PresentCaller, expiresAt: Date | null): void {
  if (!lastsLonger(expiresAt, keyExpiresAt)) return
  throw errorAt(
    'insufficient_role',
    'expires_at',
    `your own key ends at ${keyExpiresAt?.toISOString()}: give an \`expires_at\` that is no later`,
  )
}

/**
 * Throws `validation_error` if a key would expire in the past. `now` is from the database's clock, which also decides
 * when a key expires.
 */
function requireAhead(now: Date, expiresAt: Date | null): void {
  if (expiresAt === null || expiresAt > now) return
  throw errorAt(
    'validation_error',
    'expires_at',
    `\`expires_at\` is in the past: it is now ${now.toISOString()}; give a later time, or null for never`,
  )
}

/**
 * Returns a detail for each right that a change adds to a key. A key acts for its person in all of the person's
 * organizations. So an owner of one organization may reduce the key's rights or rename the key, but only the key's
 * person may add rights (docs/decisions/0012).
 */
function moreIn(row: Selectable<ApiKeysTable>, change: KeyChange): ErrorDetail[] {
  const details: ErrorDetail[] = []
  const refuse = (path: string, what: string) =>
    details.push({ path, message: `only the key’s person may ${what}` })
  if (change.active === true && row.revoked_at !== null) refuse('active', 'reactivate it')
  for (const scope of change.scopes ?? [])
    if (!covers(row.scopes, scope)) refuse(`scopes.${scope}`, `add \`${scope}\``)
  if (change.expiresAt !== undefined && lastsLonger(change.expiresAt, row.expires_at))
    refuse('expires_at', 'extend it')
  return details
}

/**
 * Returns whether a key that expires at `next` lasts longer than a key that expires at `before`. null means that the
 * key never expires.
 */
const lastsLonger = (next: Date | null, before: Date | null): boolean =>
  before !== null && (next === null || next > before)

async function lockKey(tx: ChainTx, caller: Caller, id: string): Promise<Selectable<ApiKeysTable>> {
  const row = await tx.trx
    .selectFrom('api_keys')
    .selectAll()
    .where('id', '=', id)
    .where('organization_id', '=', caller.organizationId)
    .forUpdate()
    .executeTakeFirst()
  if (row === undefined || (row.user_id !== caller.userId && !hasRole(caller.role, 'owner')))
    throw notFound('API key', id)
  return row
}

function appendKeyEvent(
  tx: ChainTx,
  caller: Caller,
  verb: ReturnType<typeof verbOf> | 'created' | 'confirmed',
  key: { id: string; user_id: string; scopes: string[] },
) {
  tx.append({
    eventType: `api_key.${verb}`,
    action: verb,
    actor: actorOf(caller),
    metadata: { key_id: key.id, key_user_id: key.user_id, scopes: key.scopes },
  })
}

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

function keyView(row: Omit<Selectable<ApiKeysTable>, 'hash'>, now: Date, factorRequired: boolean): KeyView {
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
