import type pg from 'pg'
import { advisoryLocks } from '../../db/advisory-locks.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Config } from '../../shared/config.ts'
import type { Log } from '../../shared/log.ts'
import { DomainError } from '../errors.ts'
import { sealedColumns, type Row, type SealedColumn } from './columns.ts'
import { UnsealError, type DataKey, fingerprintBytes, headerOf, sealWith } from './format.ts'
import { createKeyring, isWrappedWith, makeKey, wrapped, type Keyring } from './keyring.ts'
import { sealerOf, type Sealer } from './sealer.ts'
import { sql, type RawBuilder } from 'kysely'

/** Other transactions can end and unlock their rows meanwhile. */
const passPauseMilliseconds = 1_000

export interface RotationOptions {
  /** Wraps the data keys with DATA_ENCRYPTION_KEY instead of making a new one. */
  readonly installationKey: boolean
  /** How long other processes may still seal with an older key. At least `leaseMilliseconds`. */
  readonly settleMilliseconds: number
  readonly say: (line: string) => void
}

export interface Rotating {
  readonly pool: pg.Pool
  readonly db: Db
  readonly config: Pick<Config, 'encryptionKeys'>
  readonly log: Log
}

export interface Rotation {
  /** With which all readable values are sealed now. */
  readonly data_key: string
  /** Data keys that no value uses any more. */
  readonly retired: readonly string[]
  readonly sealed: number
  /** Data keys that had another wrapping before. */
  readonly wrapped: number
  /** Values that no known key opens. They do not change, and no data key is retired while they exist. */
  readonly unreadable: readonly string[]
}

/**
 * Makes a new data key, or wraps the present ones with DATA_ENCRYPTION_KEY (`installationKey`). Then reseals every
 * value with the newest one, and retires the others. A killed process is continued by the next call. Other processes
 * keep running: they open values of any data key, and seal with the new one within seconds (`leaseMilliseconds`).
 *
 * Throws `conflict` if another call runs, or if all are wrapped with DATA_ENCRYPTION_KEY already and no old key is set.
 * Throws WrongKey if no installation key opens the newest data key, and another error if none opens an older one to
 * wrap.
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
    // Makes the first data key if there is none.
    await keyring.current()
    const count = options.installationKey ? await wrapAgain(client, context) : 0
    if (!options.installationKey) await startRotation(context, options)
    const { id, generation } = await newestKey(context)
    const key = await keyring.find(id)
    const { sealed, unreadable } = await resealAll(context, keyring, key, options)
    const retired = unreadable.length === 0 ? await retire(context, generation) : []
    return { data_key: id, retired, sealed, wrapped: count, unreadable }
  } finally {
    // PostgreSQL ends a session only a moment after its connection is closed. A call that follows at once needs the
    // lock.
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

/** Unless an earlier rotation made one and was then killed. */
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

/** In one transaction. Returns how many had another wrapping. Throws `conflict` if the operator has set no new key. */
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

/** Repeats passes until one finds nothing. The last must begin `settleMilliseconds` after the newest key was made. */
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

/** In milliseconds, by the database's clock. */
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

/** Their rows stay: a restored backup has values of an old key, and a suspended process can still write some. */
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

const pageRows = 1_000
/** For one statement. A group of one row may have more bytes. */
const groupRows = 50
/** After each group, the process pauses as long as it worked, up to this. */
const longestPauseMilliseconds = 1_000

export interface Resealed {
  readonly sealed: number
  /** Others had locked or changed these values. The next pass reads them again. */
  readonly left: number
  /** No known key opens them, e.g. `runs.inputs_sealed of <run id>`. */
  readonly unreadable: readonly string[]
}

/** Skips locked rows, and replaces a value only if it is as it was read. */
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
  readonly sealed: Buffer
}

interface Change {
  readonly row: Row
  /** The first bytes of the value that was read. */
  readonly was: Buffer
  readonly becomes: Buffer
}

function* groups(rows: readonly Listed[]): Generator<Listed[]> {
  let group: Listed[] = []
  let bytes = 0
  for (const row of rows) {
    if (group.length === groupRows || (group.length > 0 && bytes + row.bytes > 4 * 1024 * 1024)) {
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
  const binding = column.binding(row)
  try {
    const text = await sealer.open(binding, row.sealed)
    return { row, was: row.sealed.subarray(0, fingerprintBytes), becomes: sealWith(key, binding, text) }
  } catch (error) {
    if (error instanceof UnsealError) return null
    throw error
  }
}

const nameOf = ({ table, column, key = ['id'] }: SealedColumn, row: Row): string =>
  `${table}.${column} of ${key.map((name) => String(row[name])).join('/')}`

const pause = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, Math.min(milliseconds, longestPauseMilliseconds)))

function statementsOf(db: Db, column: SealedColumn, key: DataKey) {
  const ref = (name: string): RawBuilder<unknown> => sql.ref(`t.${name}`)
  const table = sql.table(column.table)
  const sealed = ref(column.column)
  const { key: keyNames = ['id'], isBase64 = false } = column
  const listed = (names: readonly string[]) => sql.join(names.map(ref))
  /** PostgreSQL reads only these bytes of a large value. */
  const head = (bytes: number) =>
    isBase64
      ? sql`decode(left(${sealed}, ${sql.lit((bytes / 3) * 4)}), 'base64')`
      : sql`substring(${sealed}, 1, ${sql.lit(bytes)})`
  const header = headerOf(key)
  const keysOf = (rows: readonly Row[]) =>
    sql.join(
      keyNames.map((name) => {
        const type = sql.raw(name === 'item_index' ? 'integer' : 'text')
        return sql`${rows.map((row) => row[name])}::${type}[]`
      }),
    )
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
        select ${listed(keyNames)}, coalesce(octet_length(${sealed}), 0) as bytes,
               coalesce(${head(header.length)} <> ${header}, false) as is_stale
        from ${table} as t where ${rest} order by ${listed(keyNames)} limit ${sql.lit(pageRows)}`.execute(db)
      return rows
    },
    async read(group: readonly Row[]): Promise<Value[]> {
      const value = isBase64 ? sql`decode(${sealed}, 'base64')` : sealed
      const { rows } = await sql<Value>`
        select ${listed([...keyNames, ...(column.also ?? [])])}, ${value} as sealed
        from ${table} as t join unnest(${keysOf(group)}) as w(${sql.raw(keyNames.join(', '))}) on ${sameKey}
        where ${sealed} is not null`.execute(db)
      return rows
    },
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
