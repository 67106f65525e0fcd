import { sql, type RawBuilder } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import type { Row, SealedColumn } from './columns.ts'
import { fingerprintBytes, headerOf, sealWith, UnsealError, type DataKey } from './format.ts'
import type { Sealer } from './sealer.ts'

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
  /** The rows with values that no known key opens, e.g. `runs.inputs_sealed of <run id>`. */
  readonly unreadable: readonly string[]
}

/**
 * Seals the values of one column again with `key`, if they are sealed with another key. Skips locked rows instead of
 * waiting for them. Replaces a value only if nobody has changed the value since it was read. So no concurrent change is
 * lost.
 */
export async function resealColumn(
  db: Db,
  sealer: Sealer,
  column: SealedColumn,
  key: DataKey,
): Promise<Resealed> {
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
    const text = await sealer.open(place, row.sealed)
    return { row, was: row.sealed.subarray(0, fingerprintBytes), becomes: sealWith(key, place, text) }
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
