import { sql, type Transaction } from 'kysely'
import type { Context } from '../context.ts'
import type { Database } from '../db/schema/index.ts'
import { DomainError } from './errors.ts'
import { idempotencyPlace, type IdempotencyUse } from './sealing/places.ts'

/**
 * Names one use of an `Idempotency-Key`: the same text of another API key, route or organization is another one. Of
 * another API key of the same person too: it may be narrower, and would be handed what it could not have asked for.
 */
export interface KeyUse extends IdempotencyUse {
  /** Over the body. */
  readonly bodyHash: string
}

export interface StoredAnswer {
  readonly status: number
  /** JSON text, or null for no body. */
  readonly body: string | null
}

/** What an act needs to be done once per key, also when the process dies between the act and its answer. */
export interface Once {
  /** An earlier holder of the key did the act and died before it could answer: only the answer is missing. */
  readonly acted: boolean
  /** What that act left with `markActed`. */
  readonly made: unknown
  /**
   * Call in the act's own transaction. `made` is JSON that the answer needs and that cannot be read later, a new key's
   * secret for one; it is kept sealed until the answer is. Throws `idempotency_in_progress` when another call has taken
   * the key over.
   */
  markActed(trx: Transaction<Database>, made?: object): Promise<void>
}

/** Acts, unless an earlier holder of the key did: then what that act made. `act` must call `once.markActed`. */
export async function actOnce<Made extends object | void>(
  once: Once | null,
  act: () => Promise<Made>,
): Promise<Made> {
  return once?.acted === true ? (once.made as Made) : act()
}

/** Either the first answer again, or the right to make it. */
export type Opening = { readonly replay: StoredAnswer } | { readonly claim: Claim }

/**
 * The right to act under a key. It is ours while the lock is renewed; a process that dies loses it after `lockSeconds`,
 * and who asks again then has it. The lock only spares callers needless work, and may be short: one that is slow and not
 * dead cannot act any more, because `markActed` finds the key taken over and undoes the act with its transaction. (What
 * starts a run has its own mark: the run carries the key.)
 */
export interface Claim extends Once {
  /**
   * Keeps the answer for 24 hours. A large one of an act that is marked as done is not kept: who repeats the call has the
   * answer made anew.
   */
  keep(answer: StoredAnswer): Promise<void>
  /** Gives the key back: nothing final came of it, the caller may try again. That the act was done is not forgotten. */
  release(): Promise<void>
}

const lockSeconds = 5
const renewMilliseconds = 1_500
const keptFor = sql`interval '24 hours'`
/** Characters; a run's view can have hundreds of megabytes. */
export const mostKeptLength = 256 * 1024

/**
 * Opens a key's use (contract section 1, "Idempotency-Key").
 * Errors: `idempotency_mismatch` when the key was used with another body, `idempotency_in_progress` while the first
 * call has not ended.
 */
export async function openKey(context: Context, use: KeyUse): Promise<Opening> {
  // A row is taken over when it is over its time, or when its holder died (lock run out) and the body is the same.
  const fresh = sql`k.created_at >= clock_timestamp() - ${keptFor}`
  const { rows } = await sql<{ token: string; acted: boolean; made: string | null }>`
    insert into idempotency_keys as k
      (organization_id, user_id, api_key_id, route, key, body_hash, locked_until, created_at)
    values (${use.organizationId}, ${use.userId}, ${use.apiKeyId}, ${use.route}, ${use.key}, ${use.bodyHash},
            clock_timestamp() + make_interval(secs => ${lockSeconds}), clock_timestamp())
    on conflict (organization_id, user_id, api_key_id, route, key) do update
      set body_hash = excluded.body_hash, locked_until = excluded.locked_until, created_at = excluded.created_at,
          response_status = null, response_body = null,
          acted = k.acted and ${fresh}, made = case when ${fresh} then k.made end
      where (k.created_at < clock_timestamp() - ${keptFor} and coalesce(k.locked_until < clock_timestamp(), true))
         or (k.response_status is null and k.locked_until < clock_timestamp() and k.body_hash = excluded.body_hash)
    returning created_at::text as token, acted, made`.execute(context.db)
  const [mine] = rows
  if (mine !== undefined) return { claim: await claimOf(context, use, mine) }

  const row = await context.db
    .selectFrom('idempotency_keys')
    .select(['body_hash', 'response_status', 'response_body'])
    .where('organization_id', '=', use.organizationId)
    .where('user_id', '=', use.userId)
    .where('api_key_id', '=', use.apiKeyId)
    .where('route', '=', use.route)
    .where('key', '=', use.key)
    .executeTakeFirst()
  if (row !== undefined && row.body_hash !== use.bodyHash)
    throw new DomainError(
      'idempotency_mismatch',
      'this `Idempotency-Key` was used with another body: take a new one',
    )
  if (row === undefined || row.response_status === null) throw inProgress()
  const body = await unseal(context, use, 'answer', row.response_body)
  return { replay: { status: row.response_status, body } }
}

const inProgress = (): DomainError =>
  new DomainError(
    'idempotency_in_progress',
    'the first call with this `Idempotency-Key` has not ended: ask again',
  )

/** Forgets keys after their 24 hours. */
export async function forgetOldKeys(context: Context): Promise<void> {
  await sql`delete from idempotency_keys
    where created_at < clock_timestamp() - ${keptFor} and coalesce(locked_until < clock_timestamp(), true)`.execute(
    context.db,
  )
}

async function claimOf(
  context: Context,
  use: KeyUse,
  row: { readonly token: string; readonly acted: boolean; readonly made: string | null },
): Promise<Claim> {
  // Whoever takes the key over sets a new `created_at`: it tells whether the row is still ours.
  const ours = sql`organization_id = ${use.organizationId} and user_id = ${use.userId}
    and api_key_id = ${use.apiKeyId} and route = ${use.route} and key = ${use.key} and created_at = ${row.token}::timestamptz`
  const made = await unseal(context, use, 'made', row.made)
  let isRenewing = false
  const renewal = setInterval(() => {
    // A database that is slow to answer must not get a second question on top.
    if (isRenewing) return
    isRenewing = true
    sql`update idempotency_keys set locked_until = clock_timestamp() + make_interval(secs => ${lockSeconds})
        where ${ours}`
      .execute(context.db)
      .catch(() => {})
      .finally(() => (isRenewing = false))
  }, renewMilliseconds).unref()
  return {
    acted: row.acted,
    made: made === null ? undefined : JSON.parse(made),
    async markActed(trx, what) {
      const sealed = what === undefined ? null : await seal(context, use, 'made', JSON.stringify(what))
      const { numAffectedRows } = await sql`
        update idempotency_keys set acted = true, made = ${sealed} where ${ours}`.execute(trx)
      if (numAffectedRows !== 1n) throw inProgress()
    },
    async keep(answer) {
      clearInterval(renewal)
      if ((answer.body?.length ?? 0) > mostKeptLength) {
        const { numAffectedRows } = await sql`
          update idempotency_keys set locked_until = clock_timestamp() where ${ours} and acted`.execute(
          context.db,
        )
        if (numAffectedRows === 1n) return
      }
      const sealed = await seal(context, use, 'answer', answer.body)
      await sql`update idempotency_keys set locked_until = null, response_status = ${answer.status},
        response_body = ${sealed}, made = null where ${ours}`.execute(context.db)
    },
    async release() {
      clearInterval(renewal)
      await sql`delete from idempotency_keys where ${ours} and not acted`.execute(context.db)
      await sql`update idempotency_keys set locked_until = clock_timestamp() where ${ours}`.execute(
        context.db,
      )
    },
  }
}

/** Answers hold outputs, and once a new API key: at rest they are sealed, bound to their row and column. */
async function seal(
  context: Context,
  use: KeyUse,
  column: 'answer' | 'made',
  text: string | null,
): Promise<string | null> {
  if (text === null) return null
  return (await context.sealer.seal(idempotencyPlace(use, column), text)).toString('base64')
}

async function unseal(
  context: Context,
  use: KeyUse,
  column: 'answer' | 'made',
  sealed: string | null,
): Promise<string | null> {
  return sealed === null
    ? null
    : context.sealer.open(idempotencyPlace(use, column), Buffer.from(sealed, 'base64'))
}
