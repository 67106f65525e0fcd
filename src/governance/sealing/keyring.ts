import { randomBytes } from 'node:crypto'
import type { Selectable } from 'kysely'
import type { DataKeysTable } from '../../db/schema/plumbing.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Log } from '../../shared/log.ts'
import { dataKeyOf, UnsealError, unwrap, wrap, type DataKey } from './format.ts'

export class WrongKey extends Error {
  override readonly name = 'WrongKey'
  constructor() {
    super(
      'DATA_ENCRYPTION_KEY is not the key that this database was sealed with: set that one, or name it in DATA_ENCRYPTION_KEY_OLD',
    )
  }
}

/** How long a process may seal with a key before it asks for a newer one. `npm run rotate-key` waits longer. */
export const leaseMilliseconds = 10_000
/** After this time, `current` looks for a newer key in the background. */
const refreshMilliseconds = 3_000

/** Leaves out those that no installation key opens. */
export function openDataKeys(
  installationKeys: readonly Uint8Array[],
  rows: readonly { readonly id: string; readonly wrapped: Buffer }[],
): DataKey[] {
  return rows.flatMap((row) => {
    try {
      const key = dataKeyOf(unwrapAny(installationKeys, bindingOf(row.id), row.wrapped))
      return key.id === row.id ? [key] : []
    } catch (error) {
      if (error instanceof UnsealError) return []
      throw error
    }
  })
}

export interface KeyringOptions {
  readonly db: Db
  /** The present one first. Data keys may still be wrapped with an older one. */
  readonly installationKeys: readonly [Buffer, ...Buffer[]]
  readonly log: Log
  readonly clock?: () => number
}

/** Data keys, wrapped with the installation's key. A new one can be made while all processes run. */
export interface Keyring {
  /** The newest key, read at most `leaseMilliseconds` ago; the first one is made. Throws WrongKey. */
  current(): Promise<DataKey>
  /** Throws UnsealError. */
  find(id: string): Promise<DataKey>
}

const bindingOf = (id: string): string => `data-key/${id}`

export function wrapped(installationKey: Buffer, { id, key }: DataKey): { id: string; wrapped: Buffer } {
  return { id, wrapped: wrap(installationKey, bindingOf(id), key) }
}

export function isWrappedWith(
  installationKey: Buffer,
  row: { readonly id: string; readonly wrapped: Buffer },
): boolean {
  try {
    unwrap(installationKey, bindingOf(row.id), row.wrapped)
    return true
  } catch (error) {
    if (error instanceof UnsealError) return false
    throw error
  }
}

/** Throws UnsealError if no key fits. */
function unwrapAny(keys: readonly Uint8Array[], binding: string, sealed: Buffer): Buffer {
  let problem: unknown
  for (const key of keys) {
    try {
      return unwrap(key, binding, sealed)
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
    const key = dataKeyOf(unwrapAny(installationKeys, bindingOf(id), sealed))
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
      // A process that has read an older data key goes on with it.
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
      // Once the key is too old, `read` throws the error to the caller.
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

/** The database has at most one key for each generation, so of two processes only one stores its key. */
async function makeFirst(db: Db, installationKey: Buffer) {
  await makeKey(db, installationKey, 1)
  const row = await newestRow(db)
  if (row === undefined) throw new Error('data_keys holds no key')
  return row
}

/** Unless one of this generation exists. */
export async function makeKey(db: Db, installationKey: Buffer, generation: number): Promise<void> {
  await db
    .insertInto('data_keys')
    .values({ ...wrapped(installationKey, dataKeyOf(randomBytes(32))), generation })
    .onConflict((conflict) => conflict.column('generation').doNothing())
    .execute()
}
