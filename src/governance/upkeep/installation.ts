import type { Context } from '../context.ts'
import { isConnectionError } from '../../db/errors.ts'

const retryMilliseconds = 1_000

/** The error for a database that the service cannot use until a person changes it. */
export class UnfitDatabase extends Error {
  override readonly name = 'UnfitDatabase'
}

/**
 * Returns an `UnfitDatabase` with advice for the operator if the SQLSTATE is known. Otherwise returns the error
 * unchanged.
 */
function unfit(error: unknown, role: string): unknown {
  if (!(error instanceof Error)) return error
  const { code } = error as { code?: unknown }
  const say = (message: string): Error => new UnfitDatabase(message, { cause: error })
  switch (code) {
    case '42501':
      return /set role/.test(error.message)
        ? say(
            `the login of DATABASE_URL may not take the role \`${role}\`: grant it that role, or set DATABASE_APP_ROLE`,
          )
        : say(
            `the role \`${role}\` lacks rights on the tables: \`npm run migrate\` with DATABASE_OWNER_URL gives them`,
          )
    case '22023':
      return say(`there is no role \`${role}\`: create it, or set DATABASE_APP_ROLE`)
    case '42P01':
    case '3F000':
      return say('the database has no tables of this version: `npm run migrate` makes them')
    case '28000':
    case '28P01':
      return say('the database refuses the login of DATABASE_URL: check its user and password')
    case '3D000':
      return say('the database that DATABASE_URL names does not exist: create it')
    default:
      return error
  }
}

/**
 * Checks that this process can open values that other processes sealed. The very first process makes the first data
 * key. While the database cannot be reached, waits and tries again. Throws `WrongKey` if the values were sealed with
 * another key. Throws `UnfitDatabase` for a wrong login, role, right or table. After either error the process must not
 * run, because every call would fail.
 */
export async function checkInstallation(context: Pick<Context, 'config' | 'sealer'>): Promise<void> {
  for (;;) {
    try {
      await context.sealer.check()
      return
    } catch (error) {
      if (!isConnectionError(error)) throw unfit(error, context.config.database.appRole)
      await new Promise((resolve) => setTimeout(resolve, retryMilliseconds))
    }
  }
}
