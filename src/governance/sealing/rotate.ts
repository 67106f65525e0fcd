import type pg from 'pg'
import type { Context } from '../../context.ts'
import { DomainError } from '../errors.ts'
import { sealedColumns } from './columns.ts'
import { UnsealError, type DataKey } from './format.ts'
import { createKeyring, isWrappedWith, makeKey, wrapped, type Keyring } from './keyring.ts'
import { resealColumn } from './reseal.ts'
import { sealerOf } from './sealer.ts'

/** Held by the one rotation that is under way. */
const rotationLock = 7_236_002
/** Between two passes, for what was in use. */
const passPauseMilliseconds = 1_000

export interface RotationOptions {
  /** Instead of making a data key: wraps those there are with DATA_ENCRYPTION_KEY. */
  readonly installationKey: boolean
  /** How long after a key was made values may still arrive that an older one sealed; at least the lease of processes. */
  readonly settleMilliseconds: number
  readonly say: (line: string) => void
}

export interface Rotation {
  /** The data key that every value names now. */
  readonly data_key: string
  /** Data keys that no value names any more. */
  readonly retired: readonly string[]
  /** Values that were sealed anew. */
  readonly sealed: number
  /** Data keys that were wrapped with another key, and now are with DATA_ENCRYPTION_KEY. */
  readonly wrapped: number
  /** Values that no key opens, by row. They stay as they are, and no key is retired. */
  readonly unreadable: readonly string[]
}

/**
 * Gives the database a new data key, seals every value with it, and then marks the older ones as retired. It may be killed
 * at any moment: the next call goes on where it was. Nothing stops meanwhile: processes open what any key sealed, and seal
 * with the new one within seconds (`leaseMilliseconds`). Throws `conflict` while another call is under way and where there is no other installation key to change to, WrongKey, and an error
 * for data keys that none of the installation's keys opens.
 */
export async function rotateKey(context: Context, options: RotationOptions): Promise<Rotation> {
  const client = await context.pool.connect()
  try {
    const { rows } = await client.query('select pg_try_advisory_lock($1) as is_ours', [rotationLock])
    if (rows[0].is_ours !== true)
      throw new DomainError('conflict', 'another `npm run rotate-key` is under way: wait for its end')
    const keyring = createKeyring({
      db: context.db,
      installationKeys: context.config.encryptionKeys,
      log: context.log,
    })
    // The first key, where there is none; and WrongKey.
    await keyring.current()
    const count = options.installationKey ? await wrapAgain(client, context) : 0
    if (!options.installationKey) await startRotation(context, options)
    const { id, generation } = await newestKey(context)
    const key = await keyring.find(id)
    const { sealed, unreadable } = await resealAll(context, keyring, key, options)
    const retired = unreadable.length === 0 ? await retire(context, generation) : []
    return { data_key: id, retired, sealed, wrapped: count, unreadable }
  } finally {
    // The server ends a closed session a moment later, and a call that follows at once must not meet its lock.
    await client.query('select pg_advisory_unlock($1)', [rotationLock]).catch(() => undefined)
    client.release(true)
  }
}

function newestKey({ db }: Context) {
  return db
    .selectFrom('data_keys')
    .select(['id', 'generation', 'created_at'])
    .orderBy('generation', 'desc')
    .limit(1)
    .executeTakeFirstOrThrow()
}

/** Makes a key, unless an earlier rotation has made one and was killed before its end. */
async function startRotation(context: Context, { say }: RotationOptions): Promise<void> {
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
 * One transaction: data keys are all wrapped with one installation key, or all with the other. Returns how many were wrapped
 * with another key. Throws `conflict` if none was and no other key is named: the command was called without the new key.
 * With an old key named it is a repeated call, after a success or a kill, and 0 is the right answer.
 */
async function wrapAgain(client: pg.PoolClient, context: Context): Promise<number> {
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
        'the data keys are wrapped with this DATA_ENCRYPTION_KEY already: set the new one as DATA_ENCRYPTION_KEY and the ' +
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

/** Passes over all columns, until one that began late enough finds nothing. */
async function resealAll(
  context: Context,
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
async function ageOfNewest(context: Context): Promise<number> {
  const { rows } = await context.pool.query<{ age: string }>(
    'select extract(epoch from clock_timestamp() - created_at) * 1000 as age from data_keys order by generation desc limit 1',
  )
  return Number(rows[0]?.age)
}

async function waitForAge(context: Context, milliseconds: number): Promise<void> {
  for (;;) {
    const missing = milliseconds - (await ageOfNewest(context))
    if (missing <= 0) return
    await sleep(missing)
  }
}

const sleep = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds))

/** Their rows stay: what a stopped process writes late, or a backup brings back, still opens. */
async function retire({ db }: Context, generation: number): Promise<string[]> {
  const rows = await db
    .updateTable('data_keys')
    .set({ retired_at: new Date() })
    .where('generation', '<', generation)
    .where('retired_at', 'is', null)
    .returning('id')
    .execute()
  return rows.map((row) => row.id)
}
