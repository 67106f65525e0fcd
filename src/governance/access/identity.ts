import DataLoader from 'dataloader'
import { sql } from 'kysely'
import { type Limits, type Plan, effectiveLimits, planLimits } from '../../contract/plan-limits.ts'
import { readKeys, type KeyRow } from '../../db/queries/access.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Role } from '../../policy/types.ts'
import type { Actor } from '../audit/entry.ts'
import { allScopes } from './scopes.ts'
import { createHash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { LRUCache } from 'lru-cache'
import { byteCache, type ByteCache } from '../../shared/byte-cache.ts'

export interface Sender {
  readonly userId: string
  /** null if the person is signed in with a session. */
  readonly keyId: string | null
  /** null if the person uses a key. */
  readonly sessionId: string | null
  /** The only organization in which it acts: its provider opened the session, or the session that made the key. */
  readonly boundTo: string | null
  /** Who made the key of a service account. Like an author, they do not decide what it asks for. */
  readonly keyMadeBy?: string | null
  /** In place of a key and a session, a trigger acts for a service account (src/governance/triggers). */
  readonly trigger?: { readonly id: string; readonly armedBy: readonly string[] }
  /** In place of a session that may have ended, a request to make many runs again acts for the person who made it. */
  readonly rerun?: { readonly id: string }
}

/**
 * Whose rate limits apply: the requested organization, or that of the key, if the person is a member of it; otherwise
 * the person's first one, so that a former member uses up nothing of the organization they left. Without any,
 * `holderId` is the person's id, and the limits are those of the smallest plan.
 */
export interface Charged {
  readonly holderId: string
  readonly limits: Limits
}

export const senderOf = ({ keyId, sessionId }: Sender): string => keyId ?? sessionId ?? ''

/** The authenticated sender of a request. It has no role: each call looks up the role in its own organization. */
export interface Identity extends Sender {
  readonly user: { readonly id: string; readonly email: string; readonly name: string }
  /** If the request names none: where the key was made, or one of the person's. Empty if the person has none. */
  readonly organizationId: string
  /** The organization that a signed-in person's request names; the person may not be a member. Is null for a key. */
  readonly wanted: string | null
  /** null if the sender is a sign-in session. */
  readonly keyName: string | null
  /** All for a session; `Caller.scopes` has only those that the role in the organization can use. */
  readonly scopes: readonly string[]
  readonly charged: Charged
}

export interface Caller extends Sender {
  readonly email: string
  readonly organizationId: string
  readonly role: Role
  readonly scopes: readonly string[]
  /** The rights that the call needs (api/route.ts). The service checks them again under the lock (recheck.ts). */
  readonly needs: {
    readonly scope: string | null
    readonly further?: readonly string[]
    readonly role: Role
    readonly factor?: boolean
  }
  readonly ip: string | null
  readonly requestId?: string
}

export function actorOf({
  userId,
  keyId,
  ip,
  requestId,
}: Pick<Caller, 'userId' | 'keyId' | 'ip' | 'requestId'>): Actor {
  return { type: 'user', id: userId, apiKeyId: keyId, ip, requestId }
}

/**
 * Returns null for no valid key. A text without a key's checksum does not reach the database; every other key is read
 * there, so a revocation holds at once in every process. Notes the key's use at most once a minute.
 */
export async function authenticate(keys: KeyLookup, header: string | undefined): Promise<Identity | null> {
  const hash = keyHashOf(header)
  return hash === null ? null : identityOfKey(keys, hash)
}

/** So many lookups of a key in a second read the database; further ones use the remembered identity. */
const oftenEnough = 20
interface Remembered {
  readonly until: number
  asked: number
  /** null if the key was not read yet, or is not valid. */
  identity: Identity | null
}

export interface KeyLookup {
  readonly db: Db
  /** Requests in one turn of the event loop share a query. Caches nothing. */
  readonly loader: DataLoader<string, KeyRow | null>
  /** By the hash of the key, each for one second. */
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
 * As `authenticate`, but the identity of a key that asks often may be a second old (`isRemembered`). Only for calls
 * that check key, scope and role again under the chain's lock (docs/decisions/0049).
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

export function forget({ remembered }: KeyLookup, header: string | undefined): void {
  const hash = keyHashOf(header)
  if (hash !== null) remembered.delete(hash)
}

function memoryOf({ remembered }: KeyLookup, hash: string): Remembered {
  const now = performance.now()
  const known = remembered.get(hash)
  if (known !== undefined && now < known.until) return known
  if (remembered.size >= 10_000) remembered.clear()
  const made = { until: now + 1_000, asked: 0, identity: null }
  remembered.set(hash, made)
  return made
}

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
    keyMadeBy: row.made_by,
    sessionId: null,
    boundTo: row.bound ? row.organization_id : null,
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
 * With every scope; the role limits them. Without `wanted`, in the organization that it is bound to, or in the first
 * one. null if the person is gone.
 */
export async function identityOfSession(
  db: Db,
  { userId, sessionId, boundTo }: Pick<Sender, 'userId' | 'boundTo'> & { readonly sessionId: string },
  wanted: string | null,
): Promise<Identity | null> {
  const row = await homeOf(db, userId, wanted ?? boundTo)
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
    boundTo,
    scopes: allScopes,
    charged: chargedOf(id, row),
  }
}

/** Reads a person with the wanted organization, or with the first one if the person is not a member of that. */
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

/** If several uses come in a minute, only the first one writes. A failed write does no harm. */
function noteUse(db: Db, keyId: string): void {
  db.updateTable('api_keys')
    .set({ last_used_at: sql<Date>`now()` })
    .where('id', '=', keyId)
    .where(sql<boolean>`coalesce(last_used_at < now() - interval '1 minute', true)`)
    .execute()
    .catch(() => {})
}

export async function roleIn(db: Db, userId: string, organizationId: string): Promise<Role | null> {
  const row = await db
    .selectFrom('memberships')
    .select('role')
    .where('user_id', '=', userId)
    .where('organization_id', '=', organizationId)
    .executeTakeFirst()
  return row?.role ?? null
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const prefix = 'csk_live_'
const form = /^csk_live_([0-9A-Za-z]{32})([0-9A-Za-z]{6})$/

/** The CRC32 as six base62 digits, the most significant first. Six are enough: 62^6 is larger than 2^32. */
function checksum(body: string): string {
  let rest = crc32(body)
  let digits = ''
  for (let digit = 0; digit < 6; digit += 1) {
    digits = `${alphabet[rest % 62]}${digits}`
    rest = Math.floor(rest / 62)
  }
  return digits
}

/** A key is `csk_live_`, 32 base62 characters (190 random bits) and the checksum of both. `secret` is shown once. */
export function newApiKey(): { secret: string; hash: string; last4: string } {
  const random = Array.from({ length: 32 }, () => alphabet[randomInt(alphabet.length)]).join('')
  const body = `${prefix}${random}`
  const secret = `${body}${checksum(body)}`
  return { secret, hash: hashApiKey(secret), last4: secret.slice(-4) }
}

export function isApiKey(text: string): boolean {
  const match = form.exec(text)
  return match !== null && checksum(`${prefix}${match[1]}`) === match[2]
}

export function hashApiKey(secret: string): string {
  return createHash('sha256').update(secret, 'utf8').digest('hex')
}

export interface SessionCache {
  /** By the person's id and the client's session id. A session never changes its organization. */
  readonly organizations: ByteCache<string>
  /** When this process last noted an organization's storage limit in the audit log, in epoch milliseconds. */
  readonly limitNotedAt: LRUCache<string, number>
}

export const createSessionCache = (): SessionCache => ({
  organizations: byteCache(8 * 1024 * 1024),
  limitNotedAt: new LRUCache({ max: 10_000 }),
})
