import DataLoader from 'dataloader'
import { sql } from 'kysely'
import { effectiveLimits, planLimits, type Limits, type Plan } from '../../contract/plan-limits.ts'
import { readKeys, type KeyRow } from '../../db/queries/access.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Role } from '../../policy/types.ts'
import type { Actor } from '../audit/entry.ts'
import { hashApiKey, isApiKey } from './key-format.ts'
import { allScopes } from './scopes.ts'

export { newApiKey } from './key-format.ts'

/** The API key or sign-in session that authenticates a request. */
export interface Sender {
  readonly userId: string
  /** null if the person is signed in with a session. */
  readonly keyId: string | null
  /** null if the person uses a key. */
  readonly sessionId: string | null
}

/**
 * The organization whose rate limits apply to a request. This is the requested organization, or the organization of the
 * key, if the person is a member of it. Otherwise it is the person's first organization. So a former member uses up no
 * requests of the organization that they left. If the person has no organization, `holderId` is the person's id, and
 * the limits are those of the smallest plan.
 */
export interface Charged {
  readonly holderId: string
  readonly limits: Limits
}

/** Id of the API key or sign-in session. */
export const senderOf = ({ keyId, sessionId }: Sender): string => keyId ?? sessionId ?? ''

/**
 * The authenticated sender of a request. It contains no role: each call looks up the sender's role in the organization
 * of the call.
 */
export interface Identity extends Sender {
  readonly user: { readonly id: string; readonly email: string; readonly name: string }
  /**
   * The organization for requests that name no organization. For a key, it is the organization in which the key was
   * made. For a sign-in session, it is one of the person's organizations. Is empty if a signed-in person has no
   * organization.
   */
  readonly organizationId: string
  /**
   * The organization that the request of a signed-in person names. The person may not be a member of this organization.
   * Is null for a key, or if the request names none.
   */
  readonly wanted: string | null
  /** null if the sender is a sign-in session. */
  readonly keyName: string | null
  /**
   * The scopes of the key. A sign-in session has all scopes. When a signed-in person acts in an organization,
   * `Caller.scopes` contains only the scopes that the person's role can use.
   */
  readonly scopes: readonly string[]
  /** The organization whose rate limits apply to the request, with its present limits. */
  readonly charged: Charged
}

/** A person acting in one organization, with a role in it. */
export interface Caller extends Sender {
  readonly email: string
  readonly organizationId: string
  readonly role: Role
  readonly scopes: readonly string[]
  /** The rights that the call needs (api/access.ts). The service checks them again under the lock (recheck.ts). */
  readonly needs: {
    readonly scope: string | null
    readonly further?: readonly string[]
    readonly role: Role
    readonly factor?: boolean
  }
  readonly ip: string | null
  /** Id of the HTTP request, for the log. */
  readonly requestId?: string
}

/** The caller as the actor of an audit entry. */
export function actorOf({ userId, keyId, ip, requestId }: Caller): Actor {
  return { type: 'user', id: userId, apiKeyId: keyId, ip, requestId }
}

/**
 * Returns the sender of this `Authorization` header. Returns null if the header contains no API key, or if the key's
 * checksum is wrong (the database is not read then). Also returns null if the key is unknown, revoked or expired. Reads
 * the database for every other key, so a revocation takes effect at once in every process. Records the key's use at
 * most once a minute, without delaying the request.
 */
export async function authenticate(keys: KeyLookup, header: string | undefined): Promise<Identity | null> {
  const hash = keyHashOf(header)
  return hash === null ? null : identityOfKey(keys, hash)
}

/**
 * In one second, this many lookups of a key read the database. Further lookups in this second use the remembered
 * identity.
 */
const oftenEnough = 20
const second = 1_000
const mostRemembered = 10_000
interface Remembered {
  readonly until: number
  asked: number
  /** null if the key was not read yet, or is not valid. */
  identity: Identity | null
}

/** Looks up the API keys of requests, in one process. */
export interface KeyLookup {
  readonly db: Db
  /** Loads keys by their hash. Requests in one turn of the event loop share a query. The loader caches nothing. */
  readonly loader: DataLoader<string, KeyRow | null>
  /** Identities of API keys, by the hash of the key. An entry is used for one second. */
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
 * Does the same as `authenticate`, with one difference: if a key asks often, its identity may be a second old, and
 * `isRemembered` is true. Use this function only if you check key, scope and role again under the chain lock
 * (docs/decisions/0049).
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

/** Removes the remembered identity of a key that is no longer valid. */
export function forget({ remembered }: KeyLookup, header: string | undefined): void {
  const hash = keyHashOf(header)
  if (hash !== null) remembered.delete(hash)
}

/**
 * Returns the entry of a key. If the key has no entry, or if the entry is older than a second, makes an empty entry.
 */
function memoryOf({ remembered }: KeyLookup, hash: string): Remembered {
  const now = performance.now()
  const known = remembered.get(hash)
  if (known !== undefined && now < known.until) return known
  if (remembered.size >= mostRemembered) remembered.clear()
  const made = { until: now + second, asked: 0, identity: null }
  remembered.set(hash, made)
  return made
}

/**
 * Returns the hash of the API key in the header. Returns null if the header contains no API key, or if the key's
 * checksum is wrong.
 */
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
 * Returns a signed-in person as the sender of a request. Returns null if the person no longer exists. The sender has
 * every scope. In each organization, the person's role limits these scopes. If `wanted` is null, the person's first
 * organization is used.
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
 * Reads a person and the wanted organization. If the person is not a member of this organization, reads the person's
 * first organization instead, if there is one.
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

/**
 * Records the present time as the key's last use. Writes nothing if a use in the last minute is recorded already. So if
 * several calls come at the same time, only the first one writes. A failed write does no harm.
 */
function noteUse(db: Db, keyId: string): void {
  db.updateTable('api_keys')
    .set({ last_used_at: sql<Date>`now()` })
    .where('id', '=', keyId)
    .where(sql<boolean>`coalesce(last_used_at < now() - interval '1 minute', true)`)
    .execute()
    .catch(() => {})
}

/** Returns the person's role in an organization; null if the person is not a member. */
export async function roleIn(db: Db, userId: string, organizationId: string): Promise<Role | null> {
  const row = await db
    .selectFrom('memberships')
    .select('role')
    .where('user_id', '=', userId)
    .where('organization_id', '=', organizationId)
    .executeTakeFirst()
  return row?.role ?? null
}
