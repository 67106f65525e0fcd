import type { Unsealing } from '../context.ts'
import { isConnectionError } from '../../db/errors.ts'

/** The service cannot use the database until a person changes it. */
export class UnfitDatabase extends Error {
  override readonly name = 'UnfitDatabase'
}

/** With advice for the operator, if the SQLSTATE is known. */
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
 * The first process makes the first data key. Waits while the database cannot be reached. Throws `WrongKey` if the
 * values were sealed with another key, and `UnfitDatabase` for a wrong login, role, right or table. Then the process
 * must not run, because every call would fail.
 */
export async function checkInstallation(context: Unsealing): Promise<void> {
  for (;;) {
    try {
      await context.sealer.check()
      return
    } catch (error) {
      if (!isConnectionError(error)) throw unfit(error, context.config.database.appRole)
      await new Promise((resolve) => setTimeout(resolve, 1_000))
    }
  }
}
