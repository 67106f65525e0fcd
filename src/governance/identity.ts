import DataLoader from 'dataloader'
import { sql, type Kysely } from 'kysely'
import type { Plan } from '../db/schema/identity.ts'
import type { Database } from '../db/schema/index.ts'
import type { Role } from '../policy/types.ts'
import type { Actor } from './audit.ts'
import { effectiveLimits, planLimits, type Limits } from './quotas/limits.ts'
import { hashApiKey, isApiKey } from './key-format.ts'
import { allScopes } from './scopes.ts'

export { newApiKey } from './key-format.ts'

/** By what word a request is a person's. */
export interface Sender {
  readonly userId: string
  /** null: the person has signed in themselves. */
  readonly keyId: string | null
  /** null: they use a key. */
  readonly sessionId: string | null
}

/**
 * The organization meant, if the person belongs to it, else another of theirs: who was removed uses up nothing there. Of a
 * person without any the person's own id, on the smallest plan.
 */
export interface Charged {
  readonly holderId: string
  readonly limits: Limits
}

/** The id of the key or session. */
export const senderOf = ({ keyId, sessionId }: Sender): string => keyId ?? sessionId ?? ''

/** Who sends a request, by key or by session. The role is looked up per organization, at each call. */
export interface Identity extends Sender {
  readonly user: { readonly id: string; readonly email: string; readonly name: string }
  /**
   * Meant where a call names none: of a key the one it was made in, of a session one that its person belongs to. Empty for
   * the session of a person without any.
   */
  readonly organizationId: string
  /** What a session asks to act in, which may be no organization of theirs: where one counts it is looked up. */
  readonly wanted: string | null
  /** Of a session: all there are; its caller gets those of the role. */
  readonly scopes: readonly string[]
  /** Whose requests are counted, with the limits as they are now. */
  readonly charged: Charged
}

/** A person acting in one organization, in which they have a role. */
export interface Caller extends Sender {
  readonly email: string
  readonly organizationId: string
  readonly role: Role
  readonly scopes: readonly string[]
  /** What the call needs at the least, by the access table: asked again under the lock (standing.ts). */
  readonly needs: { readonly scope: string | null; readonly role: Role; readonly factor?: boolean }
  readonly ip: string | null
}

/** The caller as an audit entry names them. */
export function actorOf(caller: Caller): Actor {
  return { type: 'user', id: caller.userId, apiKeyId: caller.keyId, ip: caller.ip }
}

/**
 * Who sends this `Authorization` header, or null: no header, not a bearer key, a wrong checksum (told offline), or a
 * key that is unknown, revoked or expired. Asks the database every time, so that a revocation holds at once in every
 * process. Notes the key's use, at most once a minute and not in the request's way.
 */
export async function authenticate(
  db: Kysely<Database>,
  header: string | undefined,
): Promise<Identity | null> {
  const hash = keyHashOf(header)
  return hash === null ? null : identityOfKey(db, hash)
}

/** So many times a second a key is looked up; how often it asks beyond that, it is remembered until the second is over. */
const oftenEnough = 20
const second = 1_000
const mostRemembered = 10_000
interface Remembered {
  readonly until: number
  asked: number
  /** null: not read yet, or nobody's. */
  identity: Identity | null
}
const memories = new WeakMap<Kysely<Database>, Map<string, Remembered>>()

/**
 * As `authenticate`, but of a key that asks often what is known may be a second old: then `isRemembered`. Only for those who
 * ask again, under the chain lock, whether key, scope and role still hold (docs/decisions/0049).
 */
export async function recall(
  db: Kysely<Database>,
  header: string | undefined,
): Promise<{ readonly identity: Identity; readonly isRemembered: boolean } | null> {
  const hash = keyHashOf(header)
  if (hash === null) return null
  const known = memoryOf(db, hash)
  known.asked += 1
  if (known.identity !== null && known.asked > oftenEnough)
    return { identity: known.identity, isRemembered: true }
  known.identity = await identityOfKey(db, hash)
  return known.identity === null ? null : { identity: known.identity, isRemembered: false }
}

/** Forgets a key that was found to hold no more. */
export function forget(db: Kysely<Database>, header: string | undefined): void {
  const hash = keyHashOf(header)
  if (hash !== null) memories.get(db)?.delete(hash)
}

/** What is known of a key in this second. */
function memoryOf(db: Kysely<Database>, hash: string): Remembered {
  let memory = memories.get(db)
  if (memory === undefined) memories.set(db, (memory = new Map()))
  const now = performance.now()
  const known = memory.get(hash)
  if (known !== undefined && now < known.until) return known
  if (memory.size >= mostRemembered) memory.clear()
  const made = { until: now + second, asked: 0, identity: null }
  memory.set(hash, made)
  return made
}

/** Of a bearer key; null for any other header, and for one whose checksum is wrong. */
function keyHashOf(header: string | undefined): string | null {
  const secret = /^Bearer +([^\s]+) *$/i.exec(header ?? '')?.[1]
  return secret === undefined || !isApiKey(secret) ? null : hashApiKey(secret)
}

async function identityOfKey(db: Kysely<Database>, hash: string): Promise<Identity | null> {
  const row = await keysOf(db).load(hash)
  if (row === null) return null
  if (row.use_is_news) noteUse(db, row.id)
  return {
    user: { id: row.user_id, email: row.email, name: row.name },
    organizationId: row.organization_id,
    wanted: null,
    userId: row.user_id,
    keyId: row.id,
    sessionId: null,
    scopes: row.scopes,
    charged:
      row.role === null
        ? chargedOf(row.user_id, await homeOf(db, row.user_id, null))
        : chargedOf(row.user_id, row),
  }
}

const loaders = new WeakMap<Kysely<Database>, DataLoader<string, KeyRow | null>>()

/** Keys by their hash. Requests that one turn of the event loop has read are looked up together; nothing is kept. */
function keysOf(db: Kysely<Database>): DataLoader<string, KeyRow | null> {
  let loader = loaders.get(db)
  if (loader === undefined) {
    loader = new DataLoader((hashes) => loadKeys(db, hashes), {
      cache: false,
      maxBatchSize: 256,
      batchScheduleFn: setImmediate,
    })
    loaders.set(db, loader)
  }
  return loader
}

interface KeyRow {
  readonly id: string
  readonly hash: string
  readonly organization_id: string
  readonly scopes: readonly string[]
  readonly user_id: string
  readonly email: string
  readonly name: string
  readonly plan: Plan
  readonly quota_overrides: object
  readonly role: Role | null
  readonly use_is_news: boolean
}

async function loadKeys(db: Kysely<Database>, hashes: readonly string[]): Promise<(KeyRow | null)[]> {
  // As text: with every request the builder would take longer to build it than it takes to run.
  const { rows } = await sql<KeyRow>`
    select k.id, k.hash, k.organization_id, k.scopes, u.id as user_id, u.email, u.name, o.plan, o.quota_overrides, m.role,
           coalesce(k.last_used_at < now() - interval '1 minute', true) as use_is_news
    from api_keys k
    join users u on u.id = k.user_id
    join organizations o on o.id = k.organization_id
    left join memberships m on m.organization_id = k.organization_id and m.user_id = k.user_id
    where k.hash = any(${[...new Set(hashes)]}::text[]) and k.revoked_at is null
      and (k.expires_at is null or k.expires_at > now())`.execute(db)
  const found = new Map(rows.map((row) => [row.hash, row]))
  return hashes.map((hash) => found.get(hash) ?? null)
}

/**
 * A signed-in person as the sender of a request: every scope, bounded by their role wherever they act. `wanted` is the
 * organization they ask to act in; without it it is the first they belong to. Null for a person who is gone.
 */
export async function identityOfSession(
  db: Kysely<Database>,
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
    sessionId,
    scopes: allScopes,
    charged: chargedOf(id, row),
  }
}

/** A person and the organization they mean, if they belong to it, else the first that they do belong to, if any. */
function homeOf(db: Kysely<Database>, userId: string, wanted: string | null) {
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

/** Of calls that come together the first writes and the others find it written. A lost note is no loss. */
function noteUse(db: Kysely<Database>, keyId: string): void {
  db.updateTable('api_keys')
    .set({ last_used_at: sql<Date>`now()` })
    .where('id', '=', keyId)
    .where(sql<boolean>`coalesce(last_used_at < now() - interval '1 minute', true)`)
    .execute()
    .catch(() => {})
}

/** The user's role in an organization, or null for someone who is not (or no longer) a member. */
export async function roleIn(
  db: Kysely<Database>,
  userId: string,
  organizationId: string,
): Promise<Role | null> {
  const row = await db
    .selectFrom('memberships')
    .select('role')
    .where('user_id', '=', userId)
    .where('organization_id', '=', organizationId)
    .executeTakeFirst()
  return row?.role ?? null
}
