import { randomBytes } from 'node:crypto'
import type { Kysely, Selectable } from 'kysely'
import type { DataKeysTable } from '../../db/schema/plumbing.ts'
import type { Database } from '../../db/schema/index.ts'
import type { Log } from '../../log.ts'
import { dataKeyOf, UnsealError, unwrap, wrap, type DataKey } from './format.ts'

/** Another key than the one this database's values are sealed with. */
export class WrongKey extends Error {
  override readonly name = 'WrongKey'
  constructor() {
    super(
      'DATA_ENCRYPTION_KEY is not the key that this database was sealed with: set that one, or name it in DATA_ENCRYPTION_KEY_OLD',
    )
  }
}

/**
 * How long a process seals with a key without asking whether there is a newer one. `npm run rotate-key` waits longer than
 * that after it has made a key.
 */
export const leaseMilliseconds = 10_000
/** A key in use is asked after from this age on, beside the work. */
const refreshMilliseconds = 3_000

export interface KeyringOptions {
  readonly db: Kysely<Database>
  /** The installation's key, then those that data keys may still be wrapped with. */
  readonly installationKeys: readonly [Buffer, ...Buffer[]]
  readonly log: Log
  /** Milliseconds; default `performance.now`. */
  readonly clock?: () => number
}

/**
 * The data keys of this database. They lie in `data_keys`, wrapped with the installation's key, so that a key can be made
 * and used while every process runs.
 */
export interface Keyring {
  /** The key for new values, at most `leaseMilliseconds` old. The first process makes the first one. Throws WrongKey. */
  current(): Promise<DataKey>
  /** The key of this id. Throws UnsealError. */
  find(id: string): Promise<DataKey>
  /** Opens bytes that were sealed with the installation's key itself. Throws UnsealError. */
  unwrap(place: string, sealed: Buffer): Buffer
}

const placeOf = (id: string): string => `data-key/${id}`
/** Of databases that were made before there were data keys. */
const probePlace = 'installation'

/** What `data_keys` holds of a key. */
export function wrapped(installationKey: Buffer, { id, key }: DataKey): { id: string; wrapped: Buffer } {
  return { id, wrapped: wrap(installationKey, placeOf(id), key) }
}

/** Whether what `data_keys` holds of a key opens with this installation key. */
export function isWrappedWith(
  installationKey: Buffer,
  row: { readonly id: string; readonly wrapped: Buffer },
): boolean {
  try {
    unwrap(installationKey, placeOf(row.id), row.wrapped)
    return true
  } catch (error) {
    if (error instanceof UnsealError) return false
    throw error
  }
}

/** Opened with the first of the installation's keys that does. Throws UnsealError. */
function unwrapAny(keys: readonly Buffer[], place: string, sealed: Buffer): Buffer {
  let problem: unknown
  for (const key of keys) {
    try {
      return unwrap(key, place, sealed)
    } catch (error) {
      problem = error
    }
  }
  throw problem
}

export function createKeyring({
  db,
  installationKeys,
  log,
  clock = () => performance.now(),
}: KeyringOptions): Keyring {
  const known = new Map<string, DataKey>()
  let newest: DataKey | undefined
  let readAt = -Infinity
  let reading: Promise<DataKey> | undefined

  const opened = ({ id, wrapped: sealed }: Pick<Selectable<DataKeysTable>, 'id' | 'wrapped'>): DataKey => {
    const held = known.get(id)
    if (held !== undefined) return held
    const key = dataKeyOf(unwrapAny(installationKeys, placeOf(id), sealed))
    if (key.id !== id) throw new UnsealError(`the row \`${id}\` of data_keys holds another key`)
    known.set(id, key)
    return key
  }

  const readNewest = async (): Promise<DataKey> => {
    const startedAt = clock()
    const row = (await newestRow(db)) ?? (await makeFirst(db, installationKeys))
    try {
      newest = opened(row)
    } catch (error) {
      if (!(error instanceof UnsealError)) throw error
      // Made under an installation key that this process was not told of: what it seals stays readable.
      if (newest === undefined) throw new WrongKey()
      log.error(
        { data_key: row.id },
        'the newest data key is wrapped with another DATA_ENCRYPTION_KEY: restart this process with that one',
      )
    }
    readAt = startedAt
    return newest
  }
  const read = (): Promise<DataKey> => (reading ??= readNewest().finally(() => (reading = undefined)))

  return {
    async current() {
      const age = clock() - readAt
      if (newest === undefined || age > leaseMilliseconds) return read()
      // A database that is away is told to whoever needs the answer.
      if (age > refreshMilliseconds) read().catch(() => undefined)
      return newest
    },
    async find(id) {
      const held = known.get(id)
      if (held !== undefined) return held
      const row = await db
        .selectFrom('data_keys')
        .select(['id', 'wrapped'])
        .where('id', '=', id)
        .executeTakeFirst()
      if (row === undefined) throw new UnsealError(`there is no data key \`${id}\``)
      return opened(row)
    },
    unwrap: (place, sealed) => unwrapAny(installationKeys, place, sealed),
  }
}

function newestRow(db: Kysely<Database>) {
  return db
    .selectFrom('data_keys')
    .select(['id', 'wrapped', 'generation'])
    .orderBy('generation', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** Two processes that make the first key at once agree on one: a generation is taken once. */
async function makeFirst(db: Kysely<Database>, installationKeys: readonly [Buffer, ...Buffer[]]) {
  await checkProbe(db, installationKeys)
  await makeKey(db, installationKeys[0], 1)
  const row = await newestRow(db)
  if (row === undefined) throw new Error('data_keys holds no key')
  return row
}

/** Makes a data key, unless its generation is taken. */
export async function makeKey(
  db: Kysely<Database>,
  installationKey: Buffer,
  generation: number,
): Promise<void> {
  await db
    .insertInto('data_keys')
    .values({ ...wrapped(installationKey, dataKeyOf(randomBytes(32))), generation })
    .onConflict((conflict) => conflict.column('generation').doNothing())
    .execute()
}

/** A database of an older version holds a known text, sealed with the key that its values were sealed with. */
async function checkProbe(db: Kysely<Database>, keys: readonly Buffer[]): Promise<void> {
  const row = await db.selectFrom('installation').select('key_probe').executeTakeFirst()
  if (row === undefined) return
  try {
    unwrapAny(keys, probePlace, row.key_probe)
  } catch {
    throw new WrongKey()
  }
}
