import { BASE_ERROR_CODES } from 'better-auth'
import { APIError } from 'better-auth/api'
import type { Config } from '../shared/config.ts'
import type { Context } from '../governance/context.ts'
import { maySignUp, mustConfirmFirst, refusedToAll } from '../governance/people/sign-up.ts'
import { isOneLine } from '../policy/text.ts'

/**
 * Throws an error with the reason if the installation's `SIGN_UP` setting refuses the address. Runs before the fields
 * of the sign-up are read. Does not check whether the address is invited.
 */
export function requireSignUpOffered({ people }: Pick<Config, 'people'>, email: unknown): void {
  const message = refusedToAll(people.signUp, typeof email === 'string' ? email : '')
  if (message !== null) throw new APIError('FORBIDDEN', { code: 'SIGN_UP_NOT_OFFERED', message })
}

/**
 * Throws if a field of a person is too long or has several lines. Runs before a sign-up is looked at, so that it says
 * the same for an address with an account, and again before a person is stored.
 */
export function requireModestUser(user: {
  readonly name?: unknown
  readonly email?: unknown
  readonly image?: unknown
}): void {
  const limits = { name: 200, email: 254, image: 2000 } as const
  for (const [field, limit] of Object.entries(limits)) {
    const value = user[field as keyof typeof limits]
    if (typeof value === 'string' && value.length > limit)
      throw new APIError('BAD_REQUEST', {
        message: `\`${field}\` is longer than ${limit} characters: shorten it`,
      })
    // The name is shown in lists and mails, and becomes the name of the personal organization. So it must be one line.
    if (typeof value === 'string' && !isOneLine(value))
      throw new APIError('BAD_REQUEST', {
        message: `\`${field}\` must be one line without control characters`,
      })
  }
}

/**
 * Runs before an account is created. Throws if the address may not have an account. The library then gives the same
 * answer as for an existing account. So a stranger cannot find out which addresses are invited. Returns whether the
 * address may have an account only because of an invitation.
 */
export async function requireMaySignUp(
  { config, db }: Pick<Context, 'config' | 'db'>,
  email: string,
): Promise<boolean> {
  if (await maySignUp(db, config.people, email)) return config.people.signUp.mode === 'invited'
  throw new APIError('FORBIDDEN', { message: 'no account can be created for this address' })
}

/**
 * Runs before a session begins. Does nothing if every address may have an account. Otherwise, throws if the address is
 * not confirmed, with the same error as for a wrong password. So somebody who signed up with another person's address
 * cannot find out whether the address may have an account.
 */
export async function requireConfirmedToSignIn(
  { config, db }: Pick<Context, 'config' | 'db'>,
  userId: string,
): Promise<void> {
  if (!mustConfirmFirst(config.people.signUp)) return
  const user = await db
    .selectFrom('users')
    .select('email_verified')
    .where('id', '=', userId)
    .executeTakeFirst()
  if (user?.email_verified !== true)
    throw APIError.from('UNAUTHORIZED', BASE_ERROR_CODES.INVALID_EMAIL_OR_PASSWORD)
}
