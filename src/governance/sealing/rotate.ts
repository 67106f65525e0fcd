import type pg from 'pg'
import { advisoryLocks } from '../../db/advisory-locks.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Config } from '../../shared/config.ts'
import type { Log } from '../../shared/log.ts'
import { DomainError } from '../errors.ts'
import { sealedColumns, type Row, type SealedColumn } from './columns.ts'
import { UnsealError, type DataKey, fingerprintBytes, headerOf, sealWith } from './format.ts'
import { createKeyring, isWrappedWith, makeKey, wrapped, type Keyring } from './keyring.ts'
import { sealerOf, openKept, type Sealer } from './sealer.ts'
import { sql, type RawBuilder } from 'kysely'

/** The pause between two passes. During the pause, other transactions can end and unlock their rows. */
const passPauseMilliseconds = 1_000

export interface RotationOptions {
  /** True: wraps the existing data keys with DATA_ENCRYPTION_KEY. False: makes a new data key. */
  readonly installationKey: boolean
  /**
   * After a new data key was made, other processes may still seal with an older data key for this time. Must be at
   * least `leaseMilliseconds`.
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
  /** Ids of the data keys that this call marked as retired, because no value uses them any more. */
  readonly retired: readonly string[]
  /** Number of resealed values. */
  readonly sealed: number
  /** Number of data keys that are now wrapped with DATA_ENCRYPTION_KEY instead of another key. */
  readonly wrapped: number
  /**
   * The rows with values that no known key opens. These values do not change. No data key is retired while such values
   * exist.
   */
  readonly unreadable: readonly string[]
}

/**
 * Makes a new data key. But if `installationKey` is true, wraps the existing data keys with DATA_ENCRYPTION_KEY
 * instead. Then reseals every value with the newest data key, and marks the older data keys as retired. If the process
 * is killed, the next call continues the work. Other processes keep running: they can open values of any data key, and
 * seal with the new data key within seconds (`leaseMilliseconds`).
 *
 * - Throws `conflict` if another call is running.
 * - Throws WrongKey if no installation key opens the newest data key.
 * - Throws `conflict` if `installationKey` is true, but all data keys are already wrapped with DATA_ENCRYPTION_KEY and
 *   no old key is set.
 * - Throws another error if `installationKey` is true, but there is an older data key that no installation key opens.
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
    // PostgreSQL ends a session only a moment after its connection is closed. So the lock is released here. Otherwise a
    // call that follows at once could not take the lock.
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

/** Makes a data key, unless an earlier rotation made one and was then killed. */
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
 * If no data key was wrapped with another key, there are two cases. If an old key is set, an earlier call has done the
 * work, so the function returns 0. If no old key is set, the operator has not set a new key, so the function throws
 * `conflict`.
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

/** Returns the age of the newest data key in milliseconds, measured with the database's clock. */
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
 * Marks the data keys older than `generation` as retired. The rows of these keys stay, because the keys can still be
 * needed. For example, a restored backup contains values of an old key, and a suspended process can still write values
 * with an old key.
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

/** One statement lists at most this many rows. */
const pageRows = 1_000
/**
 * One statement reseals at most `groupRows` rows. The values of these rows together have at most `groupBytes` bytes,
 * unless the group has only one row.
 */
const groupRows = 50
const groupBytes = 4 * 1024 * 1024
/** After each group, the process pauses for as long as it worked on the group, but at most this long. */
const longestPauseMilliseconds = 1_000

export interface Resealed {
  /** The number of values that were resealed with the key. */
  readonly sealed: number
  /**
   * The number of values that could not be resealed. Another transaction had locked or changed these values. The next
   * pass reads these values again.
   */
  readonly left: number
  /** The rows with values that no known key opens, or that are not sealed, e.g. `runs.inputs_sealed of <run id>`. */
  readonly unreadable: readonly string[]
}

/**
 * Seals the values of one column again with `key`, if they are sealed with another key. A value that is not sealed counts
 * as unreadable. Skips locked
 * rows instead of waiting for them. Replaces a value only if nobody has changed the value since it was read. So no
 * concurrent change is lost.
 */
async function resealColumn(db: Db, sealer: Sealer, column: SealedColumn, key: DataKey): Promise<Resealed> {
  const statements = statementsOf(db, column, key)
  const unreadable: string[] = []
  let [sealed, left] = [0, 0]
  for (let after: Row | null = null; ;) {
    const page: readonly Listed[] = await statements.page(after)
    for (const group of groups(page.filter((row) => row.is_stale))) {
      const startedAt = performance.now()
      const changes: Change[] = []
      for (const row of await statements.read(group)) {
        const change = await sealAgain(sealer, column, key, row)
        if (change === null) unreadable.push(nameOf(column, row))
        else changes.push(change)
      }
      const done = await statements.write(changes)
      sealed += done
      left += changes.length - done
      await pause(performance.now() - startedAt)
    }
    after = page.at(-1) ?? null
    if (page.length < pageRows) return { sealed, left, unreadable }
  }
}

interface Listed extends Row {
  readonly is_stale: boolean
  readonly bytes: number
}

interface Value extends Row {
  readonly sealed: Buffer | null
  readonly plain: string | null
}

interface Change {
  readonly row: Row
  /** Identifies the value that was read. Contains the first bytes of the sealed value. */
  readonly was: Buffer
  readonly becomes: Buffer
}

function* groups(rows: readonly Listed[]): Generator<Listed[]> {
  let group: Listed[] = []
  let bytes = 0
  for (const row of rows) {
    if (group.length === groupRows || (group.length > 0 && bytes + row.bytes > groupBytes)) {
      yield group
      group = []
      bytes = 0
    }
    group.push(row)
    bytes += row.bytes
  }
  if (group.length > 0) yield group
}

async function sealAgain(
  sealer: Sealer,
  column: SealedColumn,
  key: DataKey,
  row: Value,
): Promise<Change | null> {
  const place = column.place(row)
  try {
    const text = (await openKept(sealer, place, row)) ?? ''
    const was = row.sealed?.subarray(0, fingerprintBytes) ?? Buffer.alloc(0)
    return { row, was, becomes: sealWith(key, place, text) }
  } catch (error) {
    if (error instanceof UnsealError) return null
    throw error
  }
}

const nameOf = ({ table, column, key }: SealedColumn, row: Row): string =>
  `${table}.${column} of ${key.map(({ name }) => String(row[name])).join('/')}`

const pause = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, Math.min(milliseconds, longestPauseMilliseconds)))

/** The SQL statements for one column, built from the names of its table and columns. */
function statementsOf(db: Db, column: SealedColumn, key: DataKey) {
  const ref = (name: string): RawBuilder<unknown> => sql.ref(`t.${name}`)
  const table = sql.table(column.table)
  const sealed = ref(column.column)
  const plain = column.plain === undefined ? sql`null::text` : ref(column.plain)
  const keyNames = column.key.map(({ name }) => name)
  const listed = (names: readonly string[]) => sql.join(names.map(ref))
  const isBase64 = column.stored === 'base64'
  /** Selects the first bytes of a sealed value, so that PostgreSQL reads only these bytes of a large value. */
  const head = (bytes: number) =>
    isBase64
      ? sql`decode(left(${sealed}, ${sql.lit((bytes / 3) * 4)}), 'base64')`
      : sql`substring(${sealed}, 1, ${sql.lit(bytes)})`
  const header = headerOf(key)
  const keysOf = (rows: readonly Row[]) =>
    sql.join(column.key.map(({ name, type }) => sql`${rows.map((row) => row[name])}::${sql.raw(type)}[]`))
  const sameKey = sql.join(
    keyNames.map((name) => sql`${ref(name)} = ${sql.ref(`w.${name}`)}`),
    sql` and `,
  )

  return {
    async page(after: Row | null): Promise<Listed[]> {
      const rest =
        after === null
          ? sql`true`
          : sql`(${listed(keyNames)}) > (${sql.join(keyNames.map((name) => after[name]))})`
      const { rows } = await sql<Listed>`
        select ${listed(keyNames)}, coalesce(octet_length(${sealed}), octet_length(${plain}), 0) as bytes,
               coalesce(${head(header.length)} <> ${header}, false) or ${plain} is not null as is_stale
        from ${table} as t where ${rest} order by ${listed(keyNames)} limit ${sql.lit(pageRows)}`.execute(db)
      return rows
    },
    async read(group: readonly Row[]): Promise<Value[]> {
      const value = isBase64 ? sql`decode(${sealed}, 'base64')` : sealed
      const { rows } = await sql<Value>`
        select ${listed([...keyNames, ...(column.also ?? [])])}, ${value} as sealed, ${plain} as plain
        from ${table} as t join unnest(${keysOf(group)}) as w(${sql.raw(keyNames.join(', '))}) on ${sameKey}
        where num_nonnulls(${sealed}, ${plain}) > 0`.execute(db)
      return rows
    },
    /** Returns the number of changed rows. */
    async write(changes: readonly Change[]): Promise<number> {
      if (changes.length === 0) return 0
      const becomes = isBase64 ? sql`encode(w.becomes, 'base64')` : sql`w.becomes`
      const unchanged = sql`
        select ${listed(keyNames)}, w.becomes from ${table} as t
          join unnest(${keysOf(changes.map(({ row }) => row))}, ${changes.map(({ was }) => was)}::bytea[],
                      ${changes.map((each) => each.becomes)}::bytea[])
            as w(${sql.raw(keyNames.join(', '))}, was, becomes) on ${sameKey}
        where ${head(fingerprintBytes)} = w.was for no key update of t skip locked`
      const { numAffectedRows } = await sql`
        update ${table} as t set ${sql.ref(column.column)} = ${isBase64 ? sql`translate(${becomes}, E'\n', '')` : becomes}
        from (${unchanged}) as w where ${sameKey}`.execute(db)
      return Number(numAffectedRows ?? 0)
    },
  }
}
