import { BASE_ERROR_CODES } from 'better-auth'
import { APIError } from 'better-auth/api'
import type { Config } from '../config.ts'
import type { Context } from '../context.ts'
import { maySignUp, mustConfirmFirst, refusedToAll } from '../governance/people/sign-up.ts'

/** Before anything is read of a sign-up: throws where the installation takes nobody with such an address, and says so. */
export function requireSignUpOffered({ people }: Pick<Config, 'people'>, email: unknown): void {
  const message = refusedToAll(people.signUp, typeof email === 'string' ? email : '')
  if (message !== null) throw new APIError('FORBIDDEN', { code: 'SIGN_UP_NOT_OFFERED', message })
}

/**
 * Before an account is made: throws for an address that may have none. The library then answers as for an address that has
 * an account already, so that nobody learns who is invited.
 */
export async function requireMaySignUp({ config, db }: Context, email: string): Promise<void> {
  if (await maySignUp(db, config.people.signUp, email)) return
  throw new APIError('FORBIDDEN', { message: 'no account can be made for this address' })
}

/**
 * Before a session begins where not every address may have an account: throws, as for a wrong password, while the address is
 * not confirmed. Whoever has signed up with somebody else's address learns nothing.
 */
export async function requireConfirmedToSignIn({ config, db }: Context, userId: string): Promise<void> {
  if (!mustConfirmFirst(config.people.signUp)) return
  const user = await db
    .selectFrom('users')
    .select('email_verified')
    .where('id', '=', userId)
    .executeTakeFirst()
  if (user?.email_verified !== true)
    throw APIError.from('UNAUTHORIZED', BASE_ERROR_CODES.INVALID_EMAIL_OR_PASSWORD)
}
