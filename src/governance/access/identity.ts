import DataLoader from 'dataloader'
import { sql } from 'kysely'
import { type Limits, type Plan, effectiveLimits, planLimits } from '../../contract/plan-limits.ts'
import { readKeys, type KeyRow } from '../../db/queries/access/read-keys.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Role } from '../../policy/types.ts'
import type { Actor } from '../audit/entry.ts'
import { hashApiKey, isApiKey } from './key-format.ts'
import { allScopes } from './scopes.ts'

export { newApiKey } from './key-format.ts'

/** The key or session that authenticates a request. */
export interface Sender {
  readonly userId: string
  /** null: the person is signed in with a session. */
  readonly keyId: string | null
  /** null: the person uses a key. */
  readonly sessionId: string | null
}

/**
 * Names the organization whose request rate is used. If the person is a member of the requested organization, it is
 * this one. Otherwise it is another organization of the person, so a former member uses up no requests of the requested
 * one. A person without an organization uses their own id as `holderId`, with the limits of the smallest plan.
 */
export interface Charged {
  readonly holderId: string
  readonly limits: Limits
}

/** Id of the key or session. */
export const senderOf = ({ keyId, sessionId }: Sender): string => keyId ?? sessionId ?? ''

/**
 * Describes the authenticated sender of a request. The role is not part of it, because each call looks up the role in
 * its organization.
 */
export interface Identity extends Sender {
  readonly user: { readonly id: string; readonly email: string; readonly name: string }
  /**
   * This organization is used for requests that name none. For a key, it is the organization in which the key was made.
   * For a session, it is one of the person's organizations, or empty if the person has none.
   */
  readonly organizationId: string
  /** The organization that a session asks for, unchecked: the person may not be a member. */
  readonly wanted: string | null
  /** null for a session. */
  readonly keyName: string | null
  /** A session has all scopes here. `Caller.scopes` then contains only the scopes of the role. */
  readonly scopes: readonly string[]
  /** The organization that the request counts for, with its present limits. */
  readonly charged: Charged
}

/** A person acting in one organization, with a role in it. */
export interface Caller extends Sender {
  readonly email: string
  readonly organizationId: string
  readonly role: Role
  readonly scopes: readonly string[]
  /** The call needs at least these rights, by the access table. They are checked again under the lock (recheck.ts). */
  readonly needs: { readonly scope: string | null; readonly role: Role; readonly factor?: boolean }
  readonly ip: string | null
  /** Id of the HTTP request, for the log. */
  readonly requestId?: string
}

/** The caller as the actor of an audit entry. */
export function actorOf({ userId, keyId, ip, requestId }: Caller): Actor {
  return { type: 'user', id: userId, apiKeyId: keyId, ip, requestId }
}

/**
 * Returns the sender of this `Authorization` header. Returns null without a header, for another scheme, for a wrong
 * checksum (checked without the database), and for an unknown, revoked or expired key. Reads the database every time,
 * so a revocation holds at once in every process. Records the key's use at most once a minute, without delaying the
 * request.
 */
export async function authenticate(keys: KeyLookup, header: string | undefined): Promise<Identity | null> {
  const hash = keyHashOf(header)
  return hash === null ? null : identityOfKey(keys, hash)
}

/** After this many lookups of a key within one second, its identity is remembered for the rest of the second. */
const oftenEnough = 20
const second = 1_000
const mostRemembered = 10_000
interface Remembered {
  readonly until: number
  asked: number
  /** null: not read yet, or no valid key. */
  identity: Identity | null
}

/** How a process looks up the keys of requests. */
export interface KeyLookup {
  readonly db: Db
  /** Loads keys by their hash. Requests in one turn of the event loop share a query. Nothing is cached. */
  readonly loader: DataLoader<string, KeyRow | null>
  /** Identities of API keys, by the hash of the key. An entry lasts until its second ends. */
  readonly remembered: Map<string, Remembered>
}

export function createKeyLookup(db: Db): KeyLookup {
  const loader = new DataLoader((hashes: readonly string[]) => loadKeys(db, hashes), {
    cache: false,
    maxBatchSize: 256,
    batchScheduleFn: setImmediate,
  })
  return { db, loader, remembered: new Map() }
}

/**
 * Does the same as `authenticate`, but the identity of a key that asks often may be a second old (`isRemembered`). Use
 * it only if you check key, scope and role again under the chain lock (docs/decisions/0049).
 */
export async function recall(
  keys: KeyLookup,
  header: string | undefined,
): Promise<{ readonly identity: Identity; readonly isRemembered: boolean } | null> {
  const hash = keyHashOf(header)
  if (hash === null) return null
  const known = memoryOf(keys, hash)
  known.asked += 1
  if (known.identity !== null && known.asked > oftenEnough)
    return { identity: known.identity, isRemembered: true }
  known.identity = await identityOfKey(keys, hash)
  return known.identity === null ? null : { identity: known.identity, isRemembered: false }
}

/** Forgets a key that is no longer valid. */
export function forget({ remembered }: KeyLookup, header: string | undefined): void {
  const hash = keyHashOf(header)
  if (hash !== null) remembered.delete(hash)
}

/** The remembered identity of a key in this second. */
function memoryOf({ remembered }: KeyLookup, hash: string): Remembered {
  const now = performance.now()
  const known = remembered.get(hash)
  if (known !== undefined && now < known.until) return known
  if (remembered.size >= mostRemembered) remembered.clear()
  const made = { until: now + second, asked: 0, identity: null }
  remembered.set(hash, made)
  return made
}

/** The hash of a bearer key; null for any other header or a wrong checksum. */
function keyHashOf(header: string | undefined): string | null {
  const secret = /^Bearer +([^\s]+) *$/i.exec(header ?? '')?.[1]
  return secret === undefined || !isApiKey(secret) ? null : hashApiKey(secret)
}

async function identityOfKey({ db, loader }: KeyLookup, hash: string): Promise<Identity | null> {
  const row = await loader.load(hash)
  if (row === null) return null
  if (row.use_is_news) noteUse(db, row.id)
  return {
    user: { id: row.user_id, email: row.email, name: row.name },
    organizationId: row.organization_id,
    wanted: null,
    userId: row.user_id,
    keyId: row.id,
    keyName: row.key_name,
    sessionId: null,
    scopes: row.scopes,
    charged:
      row.role === null
        ? chargedOf(row.user_id, await homeOf(db, row.user_id, null))
        : chargedOf(row.user_id, row),
  }
}

async function loadKeys(db: Db, hashes: readonly string[]): Promise<(KeyRow | null)[]> {
  const { rows } = await readKeys([...new Set(hashes)]).execute(db)
  const found = new Map(rows.map((row) => [row.hash, row]))
  return hashes.map((hash) => found.get(hash) ?? null)
}

/**
 * Returns a signed-in person as the sender of a request. The sender has every scope, limited by the person's role in
 * each organization. Without `wanted`, the person's first organization is used. Returns null if the person no longer
 * exists.
 */
export async function identityOfSession(
  db: Db,
  { userId, sessionId }: { readonly userId: string; readonly sessionId: string },
  wanted: string | null,
): Promise<Identity | null> {
  const row = await homeOf(db, userId, wanted)
  if (row === undefined) return null
  const { id, email, name, organization_id: first } = row
  return {
    user: { id, email, name },
    organizationId: first ?? '',
    wanted,
    userId: id,
    keyId: null,
    keyName: null,
    sessionId,
    scopes: allScopes,
    charged: chargedOf(id, row),
  }
}

/**
 * Reads a person and the wanted organization. For a non-member, reads the person's first organization instead, if there
 * is one.
 */
function homeOf(db: Db, userId: string, wanted: string | null) {
  return db
    .selectFrom('users as u')
    .leftJoin('memberships as m', 'm.user_id', 'u.id')
    .leftJoin('organizations as o', 'o.id', 'm.organization_id')
    .select(['u.id', 'u.email', 'u.name', 'm.organization_id', 'o.plan', 'o.quota_overrides'])
    .where('u.id', '=', userId)
    .orderBy(sql`m.organization_id is not distinct from ${wanted}`, 'desc')
    .orderBy('m.organization_id')
    .limit(1)
    .executeTakeFirst()
}

function chargedOf(
  userId: string,
  home:
    | {
        readonly organization_id: string | null
        readonly plan: Plan | null
        readonly quota_overrides: object | null
      }
    | undefined,
): Charged {
  if (home === undefined || home.organization_id === null || home.plan === null)
    return { holderId: userId, limits: planLimits.free }
  return { holderId: home.organization_id, limits: effectiveLimits(home.plan, home.quota_overrides ?? {}) }
}

/** Only the first of several concurrent calls writes. A lost record does no harm. */
function noteUse(db: Db, keyId: string): void {
  db.updateTable('api_keys')
    .set({ last_used_at: sql<Date>`now()` })
    .where('id', '=', keyId)
    .where(sql<boolean>`coalesce(last_used_at < now() - interval '1 minute', true)`)
    .execute()
    .catch(() => {})
}

/** The user's role in an organization; null if they are not a member. */
export async function roleIn(db: Db, userId: string, organizationId: string): Promise<Role | null> {
  const row = await db
    .selectFrom('memberships')
    .select('role')
    .where('user_id', '=', userId)
    .where('organization_id', '=', organizationId)
    .executeTakeFirst()
  return row?.role ?? null
}
