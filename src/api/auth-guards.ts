import type { GenericEndpointContext } from 'better-auth'
import { APIError, createAuthMiddleware, getSessionFromCtx } from 'better-auth/api'
import type { Config } from '../config.ts'
import type { Context } from '../context.ts'
import { setSessionCookie } from 'better-auth/cookies'
import { confirmFirst } from '../governance/people/address-proof.ts'
import { endIfEnrolled, isWithFactor, type OpenedWith } from '../governance/people/second-factor.ts'
import { takeCode } from '../governance/people/used-codes.ts'
import { requireSignUpOffered } from './sign-up-guards.ts'

/** Endpoints with a parameter in the path, which its option to switch some off does not know. */
const switchedOff = new Set(['/reset-password/:token', '/callback/:id'])

/**
 * Endpoints that a session without a second factor may use although its person has one: to sign in and out, to prove the
 * factor, and what a mailed token proves. All others could change the account, or show the factor's own key.
 */
const withoutFactor = new Set([
  '/sign-in/email',
  '/sign-up/email',
  '/sign-out',
  '/get-session',
  '/two-factor/verify-totp',
  '/two-factor/verify-backup-code',
  '/request-password-reset',
  '/reset-password',
  '/send-verification-email',
  '/verify-email',
])
const factorFirst =
  'this session was opened without your second factor: send a code to `two-factor/verify-totp` first, or sign in again'

/** What the sign-in library would do and the service does not let it, whatever the spelling of the path. */
export const authGuards = (config: Config) =>
  createAuthMiddleware(async (ctx) => {
    if (switchedOff.has(ctx.path))
      throw new APIError('NOT_FOUND', { code: 'NOT_FOUND', message: 'there is no such endpoint' })
    const body = Object(ctx.body) as Record<string, unknown>
    // It would skip the second factor for ever, past resets, and nobody could end it.
    if (body['trustDevice'])
      throw new APIError('BAD_REQUEST', {
        code: 'TRUST_DEVICE_NOT_OFFERED',
        message: '`trustDevice` is not offered: every sign-in takes the second factor, leave it out',
      })
    if (ctx.path === '/sign-up/email') requireSignUpOffered(config, body['email'])
    if (!withoutFactor.has(ctx.path)) {
      const session = await getSessionFromCtx(ctx, { disableRefresh: true })
      // A key that is not proven yet is shown once, to the session that made it.
      const counts = session?.user['twoFactorEnabled'] === true || ctx.path === '/two-factor/get-totp-uri'
      if (session !== null && counts && !isWithFactor(openedWithOf(session)))
        throw new APIError('FORBIDDEN', { code: 'SECOND_FACTOR_REQUIRED', message: factorFirst })
    }
    if (ctx.path === '/two-factor/enable') {
      const session = await getSessionFromCtx(ctx)
      // The factor of whoever signed up with somebody else's address would lock its owner out.
      if (session !== null && !session.user.emailVerified)
        throw new APIError('FORBIDDEN', { code: 'EMAIL_NOT_VERIFIED', message: confirmFirst })
    }
    // Who changes a password wants nobody else to be in.
    if (ctx.path === '/change-password') return { context: { body: { ...body, revokeOtherSessions: true } } }
    return undefined
  })

/**
 * After an endpoint has answered: a session whose person has just proven their factor is followed by one that says so, and
 * one that a password opened while a factor was being enrolled ends.
 */
export const afterSignIn = (context: Context) =>
  createAuthMiddleware(async (ctx) => {
    if ((ctx.context as Answered).returned instanceof Error) return undefined
    // The library calls one that was only renewed a new one too.
    const made = ctx.context.newSession
    if (isWithFactor(openedWithOf(made))) return undefined
    if (proofs.has(ctx.path)) return stepUp(ctx)
    // What stops at the password of a person with a factor the library itself ends.
    if (made === null || made.user['twoFactorEnabled'] === true) return undefined
    if (!(await endIfEnrolled(context.db, made.user.id, made.session.token))) return undefined
    const message = 'a second factor was enrolled meanwhile: sign in again'
    throw new APIError('UNAUTHORIZED', { code: 'SECOND_FACTOR_ENROLLED', message })
  })

/** What an endpoint has answered, or the error it threw, as the library hands it on. */
type Answered = { readonly returned?: unknown }

const proofs: ReadonlySet<string> = new Set(['/two-factor/verify-totp', '/two-factor/verify-backup-code'])

/** The code was right. What the old cookie opened ends, so that nobody else who has it gets the factor along. */
async function stepUp(ctx: GenericEndpointContext) {
  const before = await getSessionFromCtx(ctx)
  if (before === null || before.user['twoFactorEnabled'] !== true || isWithFactor(openedWithOf(before)))
    return undefined
  const { internalAdapter } = ctx.context
  const session = await internalAdapter.createSession(before.user.id, false, before.session)
  await setSessionCookie(ctx, { session, user: before.user })
  await internalAdapter.deleteSession(before.session.token)
  const { user } = (ctx.context as Answered).returned as { user: unknown }
  return ctx.json({ token: session.token, user })
}

/**
 * Before a session begins: how it is opened. It takes nothing over from the one before it but where a password is changed,
 * and a code of an authenticator that has begun one begins no other. The code that enrols is taken too, and whether it was is
 * nobody's concern there: it is of a new key.
 */
export async function openingOf(
  context: Context,
  userId: string,
  endpoint: GenericEndpointContext | null,
): Promise<OpenedWith> {
  switch (endpoint?.path) {
    case '/sign-in/email':
    case '/two-factor/disable':
      return 'password'
    case '/two-factor/verify-backup-code':
      return 'password+backup_code'
    case '/change-password':
      return openedWithOf(await getSessionFromCtx(endpoint))
    case '/two-factor/verify-totp': {
      const isNew = await takeCode(context.db, userId, String(Object(endpoint.body)['code']))
      if (isNew || (await getSessionFromCtx(endpoint))?.user['twoFactorEnabled'] === false)
        return 'password+totp'
      const message = 'this code was used: wait for the next one, and sign in again'
      throw new APIError('UNAUTHORIZED', { code: 'INVALID_CODE', message })
    }
    default:
      return 'unrecorded'
  }
}

const openedWithOf = (found: { readonly session: Record<string, unknown> } | null): OpenedWith =>
  (found?.session['openedWith'] as OpenedWith | null | undefined) ?? 'unrecorded'

/** The session token in a `Cookie` header, its signature unread; null for none. */
export function sessionTokenIn(cookies: string | null): string | null {
  const signed = /(?:^|; ?)(?:__Secure-)?countersign\.session_token=([^;]*)/.exec(cookies ?? '')?.[1]
  return signed === undefined ? null : (signed.split('.', 1)[0] ?? null)
}
