import type pg from 'pg'
import { advisoryLocks } from '../../db/advisory-locks.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Config } from '../../shared/config.ts'
import type { Log } from '../../shared/log.ts'
import { DomainError } from '../errors.ts'
import { sealedColumns } from './columns.ts'
import { UnsealError, type DataKey } from './format.ts'
import { createKeyring, isWrappedWith, makeKey, wrapped, type Keyring } from './keyring.ts'
import { resealColumn } from './reseal.ts'
import { sealerOf } from './sealer.ts'

/** The pause between two passes. Other transactions can unlock their rows meanwhile. */
const passPauseMilliseconds = 1_000

export interface RotationOptions {
  /** Whether to wrap the existing data keys with DATA_ENCRYPTION_KEY instead of making a data key. */
  readonly installationKey: boolean
  /**
   * Other processes may still seal with an older data key for this time after a new key was made; at least
   * `leaseMilliseconds`.
   */
  readonly settleMilliseconds: number
  readonly say: (line: string) => void
}

/** The services that a rotation needs. */
export interface Rotating {
  readonly pool: pg.Pool
  readonly db: Db
  readonly config: Pick<Config, 'encryptionKeys'>
  readonly log: Log
}

export interface Rotation {
  /** Id of the data key with which all readable values are sealed now. */
  readonly data_key: string
  /** Ids of the data keys that no value uses any more. */
  readonly retired: readonly string[]
  /** Number of resealed values. */
  readonly sealed: number
  /** Number of data keys that are now wrapped with DATA_ENCRYPTION_KEY instead of another key. */
  readonly wrapped: number
  /**
   * Names of the rows with values that no key opens. These values do not change. No key is retired while there are such
   * values.
   */
  readonly unreadable: readonly string[]
}

/**
 * Makes a new data key, reseals every value with it, and then marks the older keys as retired. If the process is
 * killed, the next call continues. Other processes keep running: they open values of any key, and use the new key
 * within seconds (`leaseMilliseconds`).
 *
 * - Throws `conflict` if another call is running.
 * - Throws WrongKey if no installation key opens the newest data key.
 * - If `installationKey` is true: throws `conflict` if all data keys are already wrapped with DATA_ENCRYPTION_KEY and
 *   no old key is set. Throws another error if there is an older data key that no installation key opens.
 */
export async function rotateKey(context: Rotating, options: RotationOptions): Promise<Rotation> {
  const client = await context.pool.connect()
  try {
    const { rows } = await client.query('select pg_try_advisory_lock($1) as is_ours', [
      advisoryLocks.rotation,
    ])
    if (rows[0].is_ours !== true)
      throw new DomainError('conflict', 'another `npm run rotate-key` is running: wait until it ends')
    const keyring = createKeyring({
      db: context.db,
      installationKeys: context.config.encryptionKeys,
      log: context.log,
    })
    // Makes the first data key if none exists. Throws WrongKey.
    await keyring.current()
    const count = options.installationKey ? await wrapAgain(client, context) : 0
    if (!options.installationKey) await startRotation(context, options)
    const { id, generation } = await newestKey(context)
    const key = await keyring.find(id)
    const { sealed, unreadable } = await resealAll(context, keyring, key, options)
    const retired = unreadable.length === 0 ? await retire(context, generation) : []
    return { data_key: id, retired, sealed, wrapped: count, unreadable }
  } finally {
    // PostgreSQL ends a closed session only a moment later. The lock is released here, so that a call that follows at
    // once can take it.
    await client.query('select pg_advisory_unlock($1)', [advisoryLocks.rotation]).catch(() => undefined)
    client.release(true)
  }
}

function newestKey({ db }: Rotating) {
  return db
    .selectFrom('data_keys')
    .select(['id', 'generation', 'created_at'])
    .orderBy('generation', 'desc')
    .limit(1)
    .executeTakeFirstOrThrow()
}

/** Makes a key, unless a killed rotation has made one already. */
async function startRotation(context: Rotating, { say }: RotationOptions): Promise<void> {
  const newest = await newestKey(context)
  const open = await context.db
    .selectFrom('data_keys')
    .select('id')
    .where('generation', '<', newest.generation)
    .where('retired_at', 'is', null)
    .executeTakeFirst()
  if (open !== undefined) {
    say(`goes on with data key ${newest.id}, which was made ${newest.created_at.toISOString()}`)
    return
  }
  await makeKey(context.db, context.config.encryptionKeys[0], newest.generation + 1)
  say(`made data key ${(await newestKey(context)).id}`)
}

/**
 * Wraps all data keys with DATA_ENCRYPTION_KEY, in one transaction. Returns how many data keys were wrapped with
 * another key before.
 *
 * If no data key was wrapped with another key, the result depends on the old keys. If an old key is set, an earlier
 * call has done the work, and 0 is returned. If no old key is set, the operator has not set a new key, and `conflict`
 * is thrown.
 */
async function wrapAgain(client: pg.PoolClient, context: Rotating): Promise<number> {
  const [newKey, ...oldKeys] = context.config.encryptionKeys
  const keyring = createKeyring({
    db: context.db,
    installationKeys: context.config.encryptionKeys,
    log: context.log,
  })
  await client.query('begin')
  try {
    const { rows } = await client.query<{ id: string; wrapped: Buffer }>(
      'select id, wrapped from data_keys for update',
    )
    const others = rows.filter((row) => !isWrappedWith(newKey, row))
    if (others.length === 0 && !oldKeys.some((key) => !key.equals(newKey)))
      throw new DomainError(
        'conflict',
        'the data keys are already wrapped with this DATA_ENCRYPTION_KEY: set the new one as DATA_ENCRYPTION_KEY and the ' +
          'old one as DATA_ENCRYPTION_KEY_OLD',
      )
    for (const { id } of others) {
      const row = wrapped(newKey, await find(keyring, id))
      await client.query('update data_keys set wrapped = $2 where id = $1', [id, row.wrapped])
    }
    await client.query('commit')
    return others.length
  } catch (error) {
    await client.query('rollback')
    throw error
  }
}

async function find(keyring: Keyring, id: string): Promise<DataKey> {
  try {
    return await keyring.find(id)
  } catch (cause) {
    if (!(cause instanceof UnsealError)) throw cause
    throw new Error(
      `data key \`${id}\` is wrapped with a key that is not set: name it in DATA_ENCRYPTION_KEY_OLD`,
      {
        cause,
      },
    )
  }
}

/**
 * Repeats passes over all columns, until a pass finds no value to reseal. The last pass must begin at least
 * `settleMilliseconds` after the newest key was made.
 */
async function resealAll(
  context: Rotating,
  keyring: Keyring,
  key: DataKey,
  { settleMilliseconds, say }: RotationOptions,
): Promise<{ sealed: number; unreadable: readonly string[] }> {
  const sealer = sealerOf(keyring)
  let total = 0
  for (;;) {
    const isLate = (await ageOfNewest(context)) >= settleMilliseconds
    const unreadable: string[] = []
    let found = 0
    for (const column of sealedColumns) {
      const done = await resealColumn(context.db, sealer, column, key)
      if (done.sealed > 0) say(`${column.table}.${column.column}: sealed ${done.sealed} values`)
      total += done.sealed
      found += done.sealed + done.left
      unreadable.push(...done.unreadable)
    }
    if (found === 0 && isLate) return { sealed: total, unreadable }
    if (found === 0) await waitForAge(context, settleMilliseconds)
    else await sleep(passPauseMilliseconds)
  }
}

/** Milliseconds since the newest key was made, by the database's clock. */
async function ageOfNewest(context: Rotating): Promise<number> {
  const { rows } = await context.pool.query<{ age: string }>(
    'select extract(epoch from clock_timestamp() - created_at) * 1000 as age from data_keys order by generation desc limit 1',
  )
  return Number(rows[0]?.age)
}

async function waitForAge(context: Rotating, milliseconds: number): Promise<void> {
  for (;;) {
    const missing = milliseconds - (await ageOfNewest(context))
    if (missing <= 0) return
    await sleep(missing)
  }
}

const sleep = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds))

/**
 * Marks older keys as retired. Their rows stay, because they can still be needed: to open values of a restored backup,
 * or values that a suspended process writes late.
 */
async function retire({ db }: Rotating, generation: number): Promise<string[]> {
  const rows = await db
    .updateTable('data_keys')
    .set({ retired_at: new Date() })
    .where('generation', '<', generation)
    .where('retired_at', 'is', null)
    .returning('id')
    .execute()
  return rows.map((row) => row.id)
}
