import { sql, type Transaction } from 'kysely'
import type { Unsealing } from './context.ts'
import { claimIdempotencyKey } from '../db/queries/idempotency.ts'
import type { Database, Db } from '../db/schema/index.ts'
import { DomainError } from './errors.ts'
import { idempotencyBinding, type IdempotencyUse } from './sealing/bindings.ts'

/** Two API keys of one person have different uses, because one may have fewer rights. */
export interface KeyUse extends IdempotencyUse {
  readonly bodyHash: string
}

export interface StoredAnswer {
  readonly status: number
  /** JSON text. */
  readonly body: string | null
}

/** An act happens once per key, even if the process dies between the act and its answer. */
export interface Once {
  /** The API key or kind of session to which the `Idempotency-Key` belongs. */
  readonly sender: string
  /** An earlier call has done the act and stored no answer, so this one must only make it. */
  readonly acted: boolean
  /** Saved by `markActed`. */
  readonly made: unknown
  /**
   * Call this in the act's transaction. `made` is JSON that the answer needs and that cannot be read later, such as the
   * secret of a new key; it stays sealed until the answer is stored. Throws `idempotency_in_progress` if another call
   * has taken over the key.
   */
  markActed(trx: Transaction<Database>, made?: object): Promise<void>
}

/** `act` must call `once.markActed`. What an earlier call has done is not done again: returns its result. */
export async function actOnce<Made extends object | void>(
  once: Once | null,
  act: () => Promise<Made>,
): Promise<Made> {
  return once?.acted === true ? (once.made as Made) : act()
}

export async function keepMade<Made extends object>(
  once: Once | null | undefined,
  { trx }: { readonly trx: Transaction<Database> },
  made: Made,
): Promise<Made> {
  await once?.markActed(trx, made)
  return made
}

/** The stored first answer, or the right to act. */
export type Opening = { readonly replay: StoredAnswer } | { readonly claim: Claim }

/**
 * The right to act under a key, while this process renews its lock. If it dies, another call takes over after
 * `lockSeconds`. In a slow process that has lost the key, `markActed` throws, which undoes the act's transaction.
 * (Starts of runs are also protected by a unique index on the key in `runs`.)
 */
export interface Claim extends Once {
  /** For `keptHours`. A large answer of a done act is not stored, because it can be built again. */
  keep(answer: StoredAnswer): Promise<void>
  /** The caller may try again. The mark of `markActed` stays. */
  release(): Promise<void>
}

const lockSeconds = 5
/** In `idempotency_keys` and in `runs`. */
export const keptHours = 24
const keptFor = sql`make_interval(hours => ${keptHours})`
/** Characters. A run's answer can have hundreds of megabytes. */
export const mostKeptLength = 256 * 1024

/** Throws `idempotency_mismatch` for another body, `idempotency_in_progress` while the first call has not ended. */
export async function openKey(context: Unsealing, use: KeyUse): Promise<Opening> {
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

/** Unless a call still holds the key. */
export async function forgetOldKeys(db: Db): Promise<void> {
  await sql`delete from idempotency_keys
    where created_at < clock_timestamp() - ${keptFor} and coalesce(locked_until < clock_timestamp(), true)`.execute(
    db,
  )
}

async function claimOf(
  context: Unsealing,
  use: KeyUse,
  row: { readonly token: string; readonly acted: boolean; readonly made: string | null },
): Promise<Claim> {
  // A call that takes over sets a new `created_at`, so this finds the row only while this call holds the key.
  const ours = sql`organization_id = ${use.organizationId} and user_id = ${use.userId}
    and api_key_id = ${use.apiKeyId} and route = ${use.route} and key = ${use.key} and created_at = ${row.token}::timestamptz`
  const made = await unseal(context, use, 'made', row.made)
  let isRenewing = false
  const renewal = setInterval(() => {
    if (isRenewing) return
    isRenewing = true
    sql`update idempotency_keys set locked_until = clock_timestamp() + make_interval(secs => ${lockSeconds})
        where ${ours}`
      .execute(context.db)
      .catch(() => {})
      .finally(() => (isRenewing = false))
  }, 1_500).unref()
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

/** Answers contain outputs of calls, and some a new API key. */
async function seal(
  context: Unsealing,
  use: KeyUse,
  column: 'answer' | 'made',
  text: string | null,
): Promise<string | null> {
  if (text === null) return null
  return (await context.sealer.seal(idempotencyBinding(use, column), text)).toString('base64')
}

async function unseal(
  context: Unsealing,
  use: KeyUse,
  column: 'answer' | 'made',
  sealed: string | null,
): Promise<string | null> {
  return sealed === null
    ? null
    : context.sealer.open(idempotencyBinding(use, column), Buffer.from(sealed, 'base64'))
}
