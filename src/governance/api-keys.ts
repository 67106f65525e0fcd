import { sql, type Selectable } from 'kysely'
import type { Context } from '../context.ts'
import { newId } from '../contract/ids.ts'
import type { ApiKeysTable } from '../db/schema/identity.ts'
import { DomainError, notFound, type ErrorDetail } from './errors.ts'
import type { Once } from './idempotency.ts'
import { actorOf, newApiKey, type Caller } from './identity.ts'
import { readPage, viewPage, type Page, type PageRequest } from './page.ts'
import { requireProvenAddress } from './people/address-proof.ts'
import { requiresFactor } from './people/second-factor.ts'
import { covers, hasRole, isAgentsOnly, roleOfScope } from './scopes.ts'
import type { ChainTx } from './chain-tx.ts'
import { growAs } from './quotas/storage.ts'
import { runAs, type PresentCaller } from './standing.ts'

/** An API key as answered: never the key itself, of which only a hash is kept. */
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
  /** When a second factor of its person stood behind it; null: never. */
  readonly factor_confirmed_at: string | null
  /** Whether its organization refuses it until its person confirms it with a second factor. */
  readonly needs_confirmation: boolean
}

export interface KeyChange {
  readonly name?: string | undefined
  readonly scopes?: readonly string[] | undefined
  /** null = never. */
  readonly expiresAt?: Date | null | undefined
  /** false revokes, true takes that back. */
  readonly active?: boolean | undefined
}

/**
 * A key for the caller in the organization. Neither its scopes nor what they are of use for may exceed the caller's own
 * scopes and role, nor may it outlast the key it is made with: `missing_scope` or `insufficient_role`, naming each
 * (contract section 2). `validation_error` for one that would have ended already. `conflict` while the
 * caller's address is not confirmed: it may be somebody else's, who would have this key in their account.
 */
export async function createApiKey(
  context: Context,
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
      await requireProvenAddress(tx, caller.userId)
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
        last_used_at: null,
        // A key made with a key has what that one had.
        factor_confirmed_at: present.hasFactor ? tx.now : null,
      }
      await tx.trx.insertInto('api_keys').values(row).execute()
      record(tx, caller, 'created', row)
      const made = { ...viewOf(row, tx.now, present.factorRequired), secret }
      await once?.markActed(tx.trx, made)
      return made
    },
  })
}

/** Newest first: the caller's own; an owner sees everybody's in the organization. */
export async function listApiKeys(
  context: Context,
  caller: Caller,
  page: PageRequest,
): Promise<Page<KeyView>> {
  const query = context.db
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
  return viewPage(await readPage(context.db, query, 'id', page, (row) => row.id), (row) =>
    viewOf(row, row.now, row.required),
  )
}

/**
 * Changes one of the caller's keys (an owner: any of the organization's; others' do not exist for anybody else). What
 * the key may do afterwards is held against the caller, as when creating one; only revoking is always allowed. What
 * another person's key may do can only become less: `insufficient_role` for an owner who would give it more.
 */
export async function changeApiKey(
  context: Context,
  caller: Caller,
  id: string,
  change: KeyChange,
): Promise<KeyView> {
  return runAs(context, caller, 'org.change', async (tx, now) => {
    const present = await now()
    const row = await lockKey(tx, present, id)
    const scopes = change.scopes === undefined ? row.scopes : [...new Set(change.scopes)].sort()
    const onlyRevokes =
      change.active === false && Object.values(change).filter((value) => value !== undefined).length === 1
    if (!onlyRevokes) requireWithin(present, scopes)
    const more = moreIn(row, change)
    if (row.user_id !== caller.userId && more.length > 0)
      throw new DomainError(
        'insufficient_role',
        'what another person’s key may do can only become less',
        more,
      )
    if (more.length > 0)
      requireNotAfter(present, change.expiresAt === undefined ? row.expires_at : change.expiresAt)
    const next = {
      ...row,
      name: change.name ?? row.name,
      scopes,
      expires_at: change.expiresAt === undefined ? row.expires_at : change.expiresAt,
      revoked_at:
        change.active === undefined ? row.revoked_at : change.active ? null : (row.revoked_at ?? tx.now),
      // No factor stands behind what was added without one.
      factor_confirmed_at: more.length > 0 && !present.hasFactor ? null : row.factor_confirmed_at,
    }
    const { name, expires_at, revoked_at, factor_confirmed_at } = next
    await tx.trx
      .updateTable('api_keys')
      .set({ name, scopes, expires_at, revoked_at, factor_confirmed_at })
      .where('id', '=', id)
      .execute()
    record(tx, caller, verbOf(row, next), next)
    return viewOf(next, tx.now, present.factorRequired)
  })
}

/**
 * Says with a second factor that one of the caller's keys is theirs: where one is required, it then opens what it did. The
 * access table lets only a session through that was opened with one. `insufficient_role` for another person's key.
 */
export async function confirmApiKey(
  context: Context,
  caller: Caller,
  id: string,
  once: Once | null = null,
): Promise<KeyView> {
  return runAs(context, caller, 'org.change', async (tx, now) => {
    const present = await now()
    const row = await lockKey(tx, present, id)
    if (row.user_id !== caller.userId) {
      const message = 'only the person the key speaks for may confirm it'
      throw new DomainError('insufficient_role', message, [{ path: 'user_id', message }])
    }
    const next = { ...row, factor_confirmed_at: tx.now }
    await tx.trx.updateTable('api_keys').set({ factor_confirmed_at: tx.now }).where('id', '=', id).execute()
    record(tx, caller, 'confirmed', next)
    const view = viewOf(next, tx.now, present.factorRequired)
    await once?.markActed(tx.trx, view)
    return view
  })
}

/** Revokes a key: it opens nothing from the commit on, in every process. */
export async function revokeApiKey(context: Context, caller: Caller, id: string): Promise<void> {
  await changeApiKey(context, caller, id, { active: false })
}

function verbOf(before: { revoked_at: Date | null }, after: { revoked_at: Date | null }): string {
  if (before.revoked_at === null && after.revoked_at !== null) return 'revoked'
  return before.revoked_at !== null && after.revoked_at === null ? 'reactivated' : 'updated'
}

function requireWithin(caller: Caller, scopes: readonly string[]): void {
  // A session has what its role has a use for, whole areas included: that is asked below.
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

/** A key that ends bounds what is made and given with it: `insufficient_role` for what would outlast it. */
function requireNotAfter({ keyExpiresAt }: PresentCaller, expiresAt: Date | null): void {
  if (!lastsLonger(expiresAt, keyExpiresAt)) return
  const message = `your own key ends at ${keyExpiresAt?.toISOString()}: give an \`expires_at\` that is no later`
  throw new DomainError('insufficient_role', message, [{ path: 'expires_at', message }])
}

/** By the database's clock, which also says when a key ends. */
function requireAhead(now: Date, expiresAt: Date | null): void {
  if (expiresAt === null || expiresAt > now) return
  const message = `\`expires_at\` is not ahead: it is ${now.toISOString()}; give a later time, or null for never`
  throw new DomainError('validation_error', message, [{ path: 'expires_at', message }])
}

/**
 * What a change gives to a key. A key speaks for its person wherever they are a member, so an owner of its organization has
 * no say over what it opens elsewhere: they may take from it and rename it. Who may give is the person alone
 * (docs/decisions/0012).
 */
function moreIn(row: Selectable<ApiKeysTable>, change: KeyChange): ErrorDetail[] {
  const details: ErrorDetail[] = []
  const refuse = (path: string, what: string) =>
    details.push({ path, message: `only the person the key speaks for may ${what}` })
  if (change.active === true && row.revoked_at !== null) refuse('active', 'reactivate it')
  for (const scope of change.scopes ?? [])
    if (!covers(row.scopes, scope)) refuse(`scopes.${scope}`, `add \`${scope}\``)
  if (change.expiresAt !== undefined && lastsLonger(change.expiresAt, row.expires_at))
    refuse('expires_at', 'let it last longer')
  return details
}

/** null = never ends. */
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

function record(
  tx: ChainTx,
  caller: Caller,
  verb: string,
  key: { id: string; user_id: string; scopes: string[] },
) {
  tx.append({
    eventType: `api_key.${verb}`,
    action: verb,
    status: 'success',
    actor: actorOf(caller),
    metadata: { key_id: key.id, key_user_id: key.user_id, scopes: key.scopes },
  })
}

function viewOf(row: Omit<Selectable<ApiKeysTable>, 'hash'>, now: Date, factorRequired: boolean): KeyView {
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
