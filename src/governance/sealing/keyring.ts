import { randomBytes } from 'node:crypto'
import type { Selectable } from 'kysely'
import type { DataKeysTable } from '../../db/schema/plumbing.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Log } from '../../shared/log.ts'
import { dataKeyOf, UnsealError, unwrap, wrap, type DataKey } from './format.ts'

/** This database's values were sealed with another key. */
export class WrongKey extends Error {
  override readonly name = 'WrongKey'
  constructor() {
    super(
      'DATA_ENCRYPTION_KEY is not the key that this database was sealed with: set that one, or name it in DATA_ENCRYPTION_KEY_OLD',
    )
  }
}

/**
 * A process seals with a key for at most this time before it asks for a newer one. After `npm run rotate-key` has made
 * a key, it waits longer than this time.
 */
export const leaseMilliseconds = 10_000
/** From this age on, the next use of the key refreshes it in the background. */
const refreshMilliseconds = 3_000

export interface KeyringOptions {
  readonly db: Db
  /** The installation's key, then older ones that may still wrap data keys. */
  readonly installationKeys: readonly [Buffer, ...Buffer[]]
  readonly log: Log
  /** Milliseconds; default `performance.now`. */
  readonly clock?: () => number
}

/**
 * Holds the data keys of this database. They are stored in `data_keys`, wrapped with the installation's key. So a new
 * data key can be made and used while all processes run.
 */
export interface Keyring {
  /**
   * Returns the key for new values, which was read at most `leaseMilliseconds` ago. The first process makes the first
   * key. Throws WrongKey.
   */
  current(): Promise<DataKey>
  /** Returns the key with this id. Throws UnsealError. */
  find(id: string): Promise<DataKey>
  /** Opens bytes that the installation's key sealed. Throws UnsealError. */
  unwrap(place: string, sealed: Buffer): Buffer
}

const placeOf = (id: string): string => `data-key/${id}`
/** The place of `key_probe`, which only databases from before the data keys have. */
const probePlace = 'installation'

/** The row of `data_keys` for a key. */
export function wrapped(installationKey: Buffer, { id, key }: DataKey): { id: string; wrapped: Buffer } {
  return { id, wrapped: wrap(installationKey, placeOf(id), key) }
}

/** Whether this installation key opens the row of `data_keys`. */
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

/** Opens the bytes with the first installation key that fits. Throws UnsealError. */
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
      // The newest key was wrapped with an installation key that this process does not have: the older data key still
      // works.
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
      // An error of this background read is ignored. Once the key is too old, `read` throws the error to the caller.
      if (age > refreshMilliseconds) read().catch(() => undefined)
      return newest
    },
    async find(id) {
      const held = known.get(id)
      if (held !== undefined) return held
      return opened(await rowOf(db, id))
    },
    unwrap: (place, sealed) => unwrapAny(installationKeys, place, sealed),
  }
}

async function rowOf(db: Db, id: string) {
  const row = await db
    .selectFrom('data_keys')
    .select(['id', 'wrapped'])
    .where('id', '=', id)
    .executeTakeFirst()
  if (row === undefined) throw new UnsealError(`there is no data key \`${id}\``)
  return row
}

function newestRow(db: Db) {
  return db
    .selectFrom('data_keys')
    .select(['id', 'wrapped', 'generation'])
    .orderBy('generation', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** If two processes make the first key at the same time, one wins, because a generation is unique. */
async function makeFirst(db: Db, installationKeys: readonly [Buffer, ...Buffer[]]) {
  await checkProbe(db, installationKeys)
  await makeKey(db, installationKeys[0], 1)
  const row = await newestRow(db)
  if (row === undefined) throw new Error('data_keys holds no key')
  return row
}

/** Makes a data key, unless its generation exists. */
export async function makeKey(db: Db, installationKey: Buffer, generation: number): Promise<void> {
  await db
    .insertInto('data_keys')
    .values({ ...wrapped(installationKey, dataKeyOf(randomBytes(32))), generation })
    .onConflict((conflict) => conflict.column('generation').doNothing())
    .execute()
}

/**
 * A database of an older version contains `key_probe`: a known text, sealed with the installation's key. Throws
 * WrongKey.
 */
async function checkProbe(db: Db, keys: readonly Buffer[]): Promise<void> {
  const row = await db.selectFrom('installation').select('key_probe').executeTakeFirst()
  if (row === undefined) return
  try {
    unwrapAny(keys, probePlace, row.key_probe)
  } catch {
    throw new WrongKey()
  }
}
