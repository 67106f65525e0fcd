import { sql, type Transaction } from 'kysely'
import type { Context } from './context.ts'
import { claimIdempotencyKey } from '../db/queries/idempotency.ts'
import type { Database, Db } from '../db/schema/index.ts'
import { DomainError } from './errors.ts'
import { idempotencyPlace, type IdempotencyUse } from './sealing/places.ts'

/**
 * Identifies one use of an `Idempotency-Key`. The same `Idempotency-Key` with another API key, route or organization is
 * another use. Two API keys of one person also make two uses, because one of the keys may have fewer rights.
 */
export interface KeyUse extends IdempotencyUse {
  /** Hash of the request's body. */
  readonly bodyHash: string
}

export interface StoredAnswer {
  readonly status: number
  /** The body as JSON text. Is null if the answer has no body. */
  readonly body: string | null
}

/** Makes sure that an act happens once per key, even if the process dies between the act and its answer. */
export interface Once {
  /** The API key, or the kind of sign-in session, to which the `Idempotency-Key` belongs. */
  readonly sender: string
  /**
   * True if an earlier call with the key has done the act, but has stored no answer. Then this call must only make the
   * answer.
   */
  readonly acted: boolean
  /** The value that the act saved with `markActed`. */
  readonly made: unknown
  /**
   * Call this in the act's transaction. `made` is JSON that the answer needs and that cannot be read later, such as the
   * secret of a new API key. The database keeps `made` sealed until the answer is stored. Throws
   * `idempotency_in_progress` if another call has taken over the key.
   */
  markActed(trx: Transaction<Database>, made?: object): Promise<void>
}

/**
 * Runs `act`, which must call `once.markActed`. If an earlier call with the key has already done the act, returns the
 * saved result instead.
 */
export async function actOnce<Made extends object | void>(
  once: Once | null,
  act: () => Promise<Made>,
): Promise<Made> {
  return once?.acted === true ? (once.made as Made) : act()
}

/** Either the stored first answer, which is replayed, or the right to act. */
export type Opening = { readonly replay: StoredAnswer } | { readonly claim: Claim }

/**
 * A claim is the right to act under a key. It lasts while this process renews the lock of the key. If the process dies,
 * another call can take over the key after `lockSeconds`. If a slow process loses the key, `markActed` throws in that
 * process. The error undoes the act's transaction. (Starts of runs are also protected by a unique index on the key in
 * `runs`.)
 */
export interface Claim extends Once {
  /**
   * Stores the answer for `keptHours`. If the act is marked as done, a large answer is not stored, because a repeated
   * call can build the answer again.
   */
  keep(answer: StoredAnswer): Promise<void>
  /** Gives up the key without storing an answer, so that the caller may try again. The mark of `markActed` stays. */
  release(): Promise<void>
}

const lockSeconds = 5
const renewMilliseconds = 1_500
/** Keys are kept for this many hours, both in `idempotency_keys` and in `runs`. */
export const keptHours = 24
const keptFor = sql`make_interval(hours => ${keptHours})`
/** An answer with more characters than this counts as large. A run's answer can have hundreds of megabytes. */
export const mostKeptLength = 256 * 1024

/**
 * Starts a use of a key (docs/reference/errors.md, "Idempotency keys"). Throws `idempotency_mismatch` if the key was
 * used with another body, and `idempotency_in_progress` while the first call has not ended.
 */
export async function openKey(context: Pick<Context, 'db' | 'sealer'>, use: KeyUse): Promise<Opening> {
  const { rows } = await claimIdempotencyKey(use, lockSeconds, keptFor).execute(context.db)
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
      'this `Idempotency-Key` was used with another body: use a new one',
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

/** Deletes keys that are older than `keptHours`, unless a call still holds the key. */
export async function forgetOldKeys(db: Db): Promise<void> {
  await sql`delete from idempotency_keys
    where created_at < clock_timestamp() - ${keptFor} and coalesce(locked_until < clock_timestamp(), true)`.execute(
    db,
  )
}

async function claimOf(
  context: Pick<Context, 'db' | 'sealer'>,
  use: KeyUse,
  row: { readonly token: string; readonly acted: boolean; readonly made: string | null },
): Promise<Claim> {
  // A call that takes over the key sets a new `created_at`. So this condition finds the row only while this call holds
  // the key.
  const ours = sql`organization_id = ${use.organizationId} and user_id = ${use.userId}
    and api_key_id = ${use.apiKeyId} and route = ${use.route} and key = ${use.key} and created_at = ${row.token}::timestamptz`
  const made = await unseal(context, use, 'made', row.made)
  let isRenewing = false
  const renewal = setInterval(() => {
    // Do not send a second renewal while the database has not answered the first.
    if (isRenewing) return
    isRenewing = true
    sql`update idempotency_keys set locked_until = clock_timestamp() + make_interval(secs => ${lockSeconds})
        where ${ours}`
      .execute(context.db)
      .catch(() => {})
      .finally(() => (isRenewing = false))
  }, renewMilliseconds).unref()
  return {
    sender: use.apiKeyId,
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

/**
 * Seals a value for one row and one column of `idempotency_keys`. Answers are sealed because they contain outputs of
 * calls, and one kind of answer contains a new API key.
 */
async function seal(
  context: Pick<Context, 'sealer'>,
  use: KeyUse,
  column: 'answer' | 'made',
  text: string | null,
): Promise<string | null> {
  if (text === null) return null
  return (await context.sealer.seal(idempotencyPlace(use, column), text)).toString('base64')
}

async function unseal(
  context: Pick<Context, 'sealer'>,
  use: KeyUse,
  column: 'answer' | 'made',
  sealed: string | null,
): Promise<string | null> {
  return sealed === null
    ? null
    : context.sealer.open(idempotencyPlace(use, column), Buffer.from(sealed, 'base64'))
}
