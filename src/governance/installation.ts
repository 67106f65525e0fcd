import type { Context } from '../context.ts'
import { isConnectionError } from './database-errors.ts'

const place = 'installation'
const probe = 'countersign'
const retryMilliseconds = 1_000

/** Another key than the one this database's parameters are sealed with. */
export class WrongKey extends Error {
  override readonly name = 'WrongKey'
  constructor() {
    super('DATA_ENCRYPTION_KEY is not the key that this database was sealed with: set that one')
  }
}

/**
 * Whether this process can open what others sealed; the first one ever leaves the probe. Waits for a database that is
 * away. Throws WrongKey: such a process would fail every call it touches, and must not run.
 */
export async function checkInstallation(context: Context): Promise<void> {
  for (;;) {
    try {
      await check(context)
      return
    } catch (error) {
      if (!isConnectionError(error)) throw error
      await new Promise((resolve) => setTimeout(resolve, retryMilliseconds))
    }
  }
}

async function check(context: Context): Promise<void> {
  await context.db
    .insertInto('installation')
    .values({ key_probe: context.sealer.seal(place, probe) })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  const { key_probe: sealed } = await context.db
    .selectFrom('installation')
    .select('key_probe')
    .executeTakeFirstOrThrow()
  try {
    if (context.sealer.open(place, sealed) === probe) return
  } catch {
    // Not ours to open: told below.
  }
  throw new WrongKey()
}
