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
import { requireRole, runAs, type PresentCaller, type Acting } from '../access/recheck.ts'
import type { AgentAccess, Role } from '../../policy/types.ts'
import { refuseScopesOfPeople, roleOfAccount } from './service-accounts.ts'

export interface KeyChange {
  readonly name?: string | undefined
  readonly scopes?: readonly string[] | undefined
  /** null: never. */
  readonly expiresAt?: Date | null | undefined
  /** false revokes the key, true restores it. */
  readonly active?: boolean | undefined
  /** It can only become `deny`. */
  readonly default_agent_access?: AgentAccess | undefined
  /** For ever: every process refuses the key after the commit. Needs `active: false`. */
  readonly isDeletion?: true
}

/** For a key of a service account whose `expires_at` nobody has given. */
const usualDays = 365

/**
 * Creates a key for the caller, or as an owner for a service account. Throws `missing_scope` or `insufficient_role` with a detail for each scope beyond the
 * caller's scopes or role, `insufficient_role` if it would end after the key that the caller uses, and
 * `validation_error` for a time in the past. Throws `conflict` while the address is not confirmed: the person who
 * really has it may take over the account, which must not have a stranger's key then.
 */
export async function createApiKey(
  context: Acting,
  caller: Caller,
  input: NewKey,
  once: Once | null = null,
): Promise<KeyView & { readonly secret: string }> {
  const made = newApiKey()
  return growAs(context, caller, 'org.change', {
    action: 'create',
    async work(tx, now) {
      const view = await addKey(tx, await now(), caller, input, made)
      return keepMade(once, tx, { ...view, secret: made.secret })
    },
  })
}

interface NewKey {
  readonly name: string
  readonly scopes: readonly string[]
  /** Default: never, and for a service account in a year. */
  readonly expiresAt: Date | null | undefined
  readonly account?: string | undefined
  readonly default_agent_access?: AgentAccess | undefined
}

/** As `createApiKey`, in a transaction of `growAs`. */
export async function addKey(
  tx: ChainTx,
  present: PresentCaller,
  caller: Caller,
  input: NewKey,
  made: { readonly hash: string; readonly last4: string },
): Promise<KeyView> {
  requireWithin(present, input.scopes)
  if (input.account !== undefined) await requireForAccount(tx, present, input.account, input.scopes)
  const inYear = new Date(tx.now.getTime() + usualDays * 24 * 3_600_000)
  const { expiresAt = input.account === undefined ? null : inYear } = input
  requireNotAfter(present, expiresAt)
  requireAhead(tx.now, expiresAt)
  await requireProvenCaller(tx, present)
  const row = {
    id: newId('key'),
    organization_id: caller.organizationId,
    user_id: input.account ?? caller.userId,
    name: input.name,
    hash: made.hash,
    last4: made.last4,
    scopes: [...new Set(input.scopes)].sort(),
    created_at: tx.now,
    created_by: caller.userId,
    expires_at: expiresAt,
    revoked_at: null,
    deleted_at: null,
    last_used_at: null,
    // Confirmed if a second factor backs the caller.
    factor_confirmed_at: present.hasFactor ? tx.now : null,
    bound: present.boundTo !== null,
    default_agent_access: input.default_agent_access ?? 'allow',
  }
  await tx.trx.insertInto('api_keys').values(row).execute()
  if (row.default_agent_access === 'deny') tx.policyChanged()
  appendKeyEvent(tx, caller, 'created', row)
  return keyView(row, tx.now, present.factorRequired)
}

/** Throws `insufficient_role` below owner, `not_found`, and for scopes that the account's role or no account can have. */
async function requireForAccount(
  tx: ChainTx,
  present: PresentCaller,
  account: string,
  scopes: readonly string[],
): Promise<void> {
  requireRole(present.role, 'owner')
  const role = await roleOfAccount(tx, account)
  if (role === null) throw errorAt('validation_error', 'service_account', 'there is no such service account')
  refuseScopesOfPeople(scopes)
  requireRoleFor(role, scopes, 'the role of the service account')
}

/** Whether the caller may add rights: it is their own, or an owner's service account has it. */
async function ownsKey(
  tx: ChainTx,
  { userId, role }: PresentCaller,
  row: { user_id: string },
): Promise<boolean> {
  if (row.user_id === userId) return true
  return hasRole(role, 'owner') && (await roleOfAccount(tx, row.user_id)) !== null
}

/** An owner gets all keys of the organization, others only their own. */
export async function listApiKeys(
  { db }: { readonly db: Db },
  caller: Caller,
  page: PageRequest,
): Promise<Page<KeyView>> {
  return listPage(db, shownKeys(db, caller), 'key', page, (row) => keyView(row, row.now, row.required))
}

/** Throws `not_found` for a key that `listApiKeys` does not list. */
export async function readApiKey({ db }: { readonly db: Db }, caller: Caller, id: string): Promise<KeyView> {
  const row = await shownKeys(db, caller).where('id', '=', id).executeTakeFirst()
  if (row === undefined) throw notFound('API key', id)
  return keyView(row, row.now, row.required)
}

const shownKeys = (db: Db, { organizationId, role, userId }: Caller) =>
  db
    .selectFrom('api_keys')
    .selectAll()
    .select(sql<Date>`clock_timestamp()`.as('now'))
    .select(
      sql<boolean>`(select ${requiresFactor} from organizations o where o.id = api_keys.organization_id)`.as(
        'required',
      ),
    )
    .where('organization_id', '=', organizationId)
    .$if(!hasRole(role, 'owner'), (own) => own.where('user_id', '=', userId))

/**
 * Changes one of the caller's keys. An owner may reduce the rights of other people's keys.
 *
 * Throws `not_found`, `conflict` for a deleted key, `validation_error` for a time in the past, and `missing_scope` or
 * `insufficient_role` for scopes beyond the caller's, unless the change only revokes. Throws `insufficient_role` if it
 * adds rights to another person's key, or to one that ends after the key that the caller uses.
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
    const isOwn = await ownsKey(tx, present, row)
    if (isOwn && row.user_id !== caller.userId && !onlyRevokes)
      await requireForAccount(tx, present, row.user_id, scopes)
    if (!isOwn && more.length > 0)
      throw new DomainError(
        'insufficient_role',
        'you can only reduce the rights of another person’s key',
        more,
      )
    if (more.length > 0) requireNotOutside(present, row)
    if (more.length > 0)
      requireNotAfter(present, change.expiresAt === undefined ? row.expires_at : change.expiresAt)
    // A client may send the stored time of an expired key back.
    if (change.expiresAt?.getTime() !== row.expires_at?.getTime())
      requireAhead(tx.now, change.expiresAt ?? null)
    if (row.default_agent_access === 'deny' && change.default_agent_access === 'allow')
      throw errorAt(
        'conflict',
        'default_agent_access',
        'a key whose agents need a rule stays so: make another key',
      )
    const next = {
      ...row,
      default_agent_access: change.default_agent_access ?? row.default_agent_access,
      name: change.name ?? row.name,
      scopes,
      expires_at: change.expiresAt === undefined ? row.expires_at : change.expiresAt,
      revoked_at:
        change.active === undefined ? row.revoked_at : change.active ? null : (row.revoked_at ?? tx.now),
      deleted_at: isDeletion ? (row.deleted_at ?? tx.now) : null,
      // Rights that are added without a second factor end the confirmation.
      factor_confirmed_at: more.length > 0 && !present.hasFactor ? null : row.factor_confirmed_at,
    }
    const { name, expires_at, revoked_at, deleted_at, factor_confirmed_at, default_agent_access } = next
    await tx.trx
      .updateTable('api_keys')
      .set({ name, scopes, expires_at, revoked_at, deleted_at, factor_confirmed_at, default_agent_access })
      .where('id', '=', id)
      .execute()
    // Whether a rule that allows calls is a loosening depends on it.
    if (next.default_agent_access === 'deny') tx.policyChanged()
    appendKeyEvent(tx, caller, verbOf(row, next), next)
    return keyView(next, tx.now, present.factorRequired)
  })
}

/** The route requires a session with a second factor. Throws `insufficient_role` for another's key. */
export async function confirmApiKey(
  context: Acting,
  caller: Caller,
  id: string,
  once: Once | null = null,
): Promise<KeyView> {
  return runAs(context, caller, 'org.change', async (tx, now) => {
    const present = await now()
    const row = await lockKey(tx, present, id)
    if (!(await ownsKey(tx, present, row)))
      throw errorAt('insufficient_role', 'user_id', 'only the key’s person may confirm it')
    requireNotOutside(present, row)
    const next = { ...row, factor_confirmed_at: tx.now }
    await tx.trx.updateTable('api_keys').set({ factor_confirmed_at: tx.now }).where('id', '=', id).execute()
    appendKeyEvent(tx, caller, 'confirmed', next)
    return keepMade(once, tx, keyView(next, tx.now, present.factorRequired))
  })
}

/** The key acts in other organizations too, where a sign-in with this provider proves nothing. */
function requireNotOutside(
  { boundTo }: PresentCaller,
  { bound }: Pick<Selectable<ApiKeysTable>, 'bound'>,
): void {
  if (boundTo === null || bound) return
  throw errorAt(
    'conflict',
    'id',
    'this key was made with your password: sign in with it to confirm the key, or to add rights',
  )
}

function verbOf(
  before: { revoked_at: Date | null },
  after: { revoked_at: Date | null },
): 'revoked' | 'reactivated' | 'updated' {
  if (before.revoked_at === null && after.revoked_at !== null) return 'revoked'
  return before.revoked_at !== null && after.revoked_at === null ? 'reactivated' : 'updated'
}

function requireWithin(caller: Caller, scopes: readonly string[]): void {
  // A session has all scopes. The role below limits them.
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
  requireRoleFor(caller.role, scopes, 'your role')
}

function requireRoleFor(role: Role, scopes: readonly string[], whose: string): void {
  const above = scopes.filter((scope) => !hasRole(role, roleOfScope(scope)))
  if (above.length === 0) return
  const details = above.map((scope) => ({ path: scope, message: `needs the role \`${roleOfScope(scope)}\`` }))
  throw new DomainError(
    'insufficient_role',
    `a key cannot carry scopes that ${whose} has no use for`,
    details,
  )
}

/** A signed-in caller may choose any time. */
function requireNotAfter({ keyExpiresAt }: PresentCaller, expiresAt: Date | null): void {
  if (!lastsLonger(expiresAt, keyExpiresAt)) return
  throw errorAt(
    'insufficient_role',
    'expires_at',
    `your own key ends at ${keyExpiresAt?.toISOString()}: give an \`expires_at\` that is no later`,
  )
}

/** By the database's clock, which also decides when a key expires. */
function requireAhead(now: Date, expiresAt: Date | null): void {
  if (expiresAt === null || expiresAt > now) return
  throw errorAt(
    'validation_error',
    'expires_at',
    `\`expires_at\` is in the past: it is now ${now.toISOString()}; give a later time, or null for never`,
  )
}

/** An owner in any organization of its person may reduce it, only the person add rights (docs/decisions/0012). */
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

/** null means never. */
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

/** The database has only a hash of the secret. */
export interface KeyView {
  readonly id: string
  readonly organization_id: string
  /** The person, or the service account. */
  readonly user_id: string
  /** null for a key from before this was recorded. */
  readonly created_by: string | null
  readonly name: string
  readonly last4: string
  readonly scopes: readonly string[]
  /** With `deny`, a rule must allow each call of an agent that asks with the key. */
  readonly default_agent_access: AgentAccess
  readonly active: boolean
  readonly created_at: string
  readonly expires_at: string | null
  readonly revoked_at: string | null
  readonly deleted_at: string | null
  readonly last_used_at: string | null
  /** When the person confirmed the key with a second factor. */
  readonly factor_confirmed_at: string | null
  /** The organization refuses the key until then. */
  readonly needs_confirmation: boolean
}

function keyView(row: Omit<Selectable<ApiKeysTable>, 'hash'>, now: Date, factorRequired: boolean): KeyView {
  return {
    id: row.id,
    organization_id: row.organization_id,
    user_id: row.user_id,
    created_by: row.created_by,
    name: row.name,
    last4: row.last4,
    scopes: row.scopes,
    default_agent_access: row.default_agent_access,
    active: row.revoked_at === null && (row.expires_at === null || row.expires_at > now),
    created_at: row.created_at.toISOString(),
    expires_at: row.expires_at?.toISOString() ?? null,
    revoked_at: row.revoked_at?.toISOString() ?? null,
    deleted_at: row.deleted_at?.toISOString() ?? null,
    last_used_at: row.last_used_at?.toISOString() ?? null,
    factor_confirmed_at: row.factor_confirmed_at?.toISOString() ?? null,
    needs_confirmation: factorRequired && row.factor_confirmed_at === null && !isAgentsOnly(row.scopes),
  }
}
