import { randomBytes } from 'node:crypto'
import type { Selectable } from 'kysely'
import type { DataKeysTable } from '../../db/schema/plumbing.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Log } from '../../shared/log.ts'
import { dataKeyOf, UnsealError, unwrap, wrap, type DataKey } from './format.ts'

/** Thrown if the values of this database were sealed with a key that this process does not have. */
export class WrongKey extends Error {
  override readonly name = 'WrongKey'
  constructor() {
    super(
      'DATA_ENCRYPTION_KEY is not the key that this database was sealed with: set that one, or name it in DATA_ENCRYPTION_KEY_OLD',
    )
  }
}

/**
 * A process seals with a data key for at most this time before it asks for a newer key. `npm run rotate-key` makes a
 * new key and then waits longer than this time.
 */
export const leaseMilliseconds = 10_000
/**
 * If the newest key was read longer ago than this, `current` looks for a newer key in the background. Until
 * `leaseMilliseconds` have passed, `current` still returns the key that was read.
 */
const refreshMilliseconds = 3_000

/** Opens these rows of `data_keys`. Leaves out the keys that no installation key opens. */
export function openDataKeys(
  installationKeys: readonly Uint8Array[],
  rows: readonly { readonly id: string; readonly wrapped: Buffer }[],
): DataKey[] {
  return rows.flatMap((row) => {
    try {
      const key = dataKeyOf(unwrapAny(installationKeys, placeOf(row.id), row.wrapped))
      return key.id === row.id ? [key] : []
    } catch (error) {
      if (error instanceof UnsealError) return []
      throw error
    }
  })
}

export interface KeyringOptions {
  readonly db: Db
  /** The installation's key is first. Older keys follow, because data keys may still be wrapped with an older key. */
  readonly installationKeys: readonly [Buffer, ...Buffer[]]
  readonly log: Log
  /** Returns milliseconds. The default is `performance.now`. */
  readonly clock?: () => number
}

/**
 * Holds the data keys of this database. The data keys are stored in `data_keys`, wrapped with the installation's key.
 * So a new data key can be made and used while all processes run.
 */
export interface Keyring {
  /**
   * Returns the key for new values. This is the newest key of the database, read at most `leaseMilliseconds` ago. If
   * the database has no key, makes the first key. Throws WrongKey.
   */
  current(): Promise<DataKey>
  /** Returns the key with this id. Throws UnsealError. */
  find(id: string): Promise<DataKey>
}

const placeOf = (id: string): string => `data-key/${id}`

/** Returns the row of `data_keys` that stores a data key, wrapped with this installation key. */
export function wrapped(installationKey: Buffer, { id, key }: DataKey): { id: string; wrapped: Buffer } {
  return { id, wrapped: wrap(installationKey, placeOf(id), key) }
}

/** Returns whether this installation key opens the row of `data_keys`. */
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

/** Opens the bytes with the first installation key that fits. Throws UnsealError if no key fits. */
function unwrapAny(keys: readonly Uint8Array[], place: string, sealed: Buffer): Buffer {
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
    const row = (await newestRow(db)) ?? (await makeFirst(db, installationKeys[0]))
    try {
      newest = opened(row)
    } catch (error) {
      if (!(error instanceof UnsealError)) throw error
      // The newest key was wrapped with an installation key that this process does not have. If the process has read an
      // older data key, the process continues with the older data key.
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

/**
 * Makes the first data key. If two processes do this at the same time, only one key is stored, because the database
 * stores at most one key for each generation.
 */
async function makeFirst(db: Db, installationKey: Buffer) {
  await makeKey(db, installationKey, 1)
  const row = await newestRow(db)
  if (row === undefined) throw new Error('data_keys holds no key')
  return row
}

/** Makes a data key, unless a key of this generation exists. */
export async function makeKey(db: Db, installationKey: Buffer, generation: number): Promise<void> {
  await db
    .insertInto('data_keys')
    .values({ ...wrapped(installationKey, dataKeyOf(randomBytes(32))), generation })
    .onConflict((conflict) => conflict.column('generation').doNothing())
    .execute()
}
