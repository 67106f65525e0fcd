import type { GenericEndpointContext } from 'better-auth'
import { APIError, createAuthMiddleware, getSessionFromCtx } from 'better-auth/api'
import type { Db } from '../db/schema/index.ts'
import type { Config } from '../shared/config.ts'
import { setSessionCookie } from 'better-auth/cookies'
import { confirmFirst } from '../governance/access/address-proof.ts'
import { isSession } from '../governance/access/password-in-use.ts'
import { endIfEnrolled, isWithFactor, type OpenedWith } from '../governance/access/second-factor.ts'
import { takeCode } from '../governance/people/guesses.ts'
import { passwordChanged } from './password-watch.ts'
import { requireModestUser, requireSignUpOffered } from './sign-up-guards.ts'

/**
 * Endpoints that are switched off here, because the library's option `disabledPaths` does not work for a path with a
 * parameter.
 */
const switchedOff = new Set(['/reset-password/:token', '/callback/:id'])

/**
 * If a person has a second factor, a session that was opened without it may use only these endpoints. They create an
 * account, begin, read or end a session, prove the factor, or send or use a mailed token. All other endpoints could
 * change the account or show the factor's secret.
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

/**
 * Refuses requests that the sign-in library would accept but this service does not offer. `ctx.path` is the library's
 * own path of the endpoint. So no other spelling of a path avoids these checks.
 */
export const authGuards = (config: Config) =>
  createAuthMiddleware(async (ctx) => {
    if (switchedOff.has(ctx.path))
      throw new APIError('NOT_FOUND', { code: 'NOT_FOUND', message: 'this endpoint does not exist' })
    const body = Object(ctx.body) as Record<string, unknown>
    // A device that the person trusts would skip the second factor forever, even after the factor was reset. Nobody
    // could end this trust.
    if (body['trustDevice'])
      throw new APIError('BAD_REQUEST', {
        code: 'TRUST_DEVICE_NOT_OFFERED',
        message: 'leave out `trustDevice`: every sign-in needs the second factor',
      })
    if (ctx.path === '/sign-up/email') {
      requireSignUpOffered(config, body['email'])
      requireModestUser(body)
    }
    if (!withoutFactor.has(ctx.path)) {
      const session = await getSessionFromCtx(ctx, { disableRefresh: true })
      // The secret of a new factor is shown only once, in the answer to `/two-factor/enable`. `get-totp-uri` would show
      // the secret again. So `get-totp-uri` refuses a session without the factor, even if the person has no confirmed
      // factor yet.
      const counts = session?.user['twoFactorEnabled'] === true || ctx.path === '/two-factor/get-totp-uri'
      if (session !== null && counts && !isWithFactor(openedWithOf(session)))
        throw new APIError('FORBIDDEN', { code: 'SECOND_FACTOR_REQUIRED', message: factorFirst })
    }
    if (ctx.path === '/two-factor/enable') {
      const session = await getSessionFromCtx(ctx)
      // Without this check, somebody could sign up with another person's address, and lock that person out with a
      // factor.
      if (session !== null && !session.user.emailVerified)
        throw new APIError('FORBIDDEN', { code: 'EMAIL_NOT_VERIFIED', message: confirmFirst })
    }
    // A changed password must end all other sessions.
    if (ctx.path === '/change-password') return { context: { body: { ...body, revokeOtherSessions: true } } }
    return undefined
  })

/**
 * Runs after an endpoint has answered. If a session has just proven the second factor, a new session replaces it. The
 * new session records the factor. If somebody enrolled a factor during a sign-in with only the password, the session of
 * this sign-in is ended.
 */
export const afterSignIn = (db: Db) =>
  createAuthMiddleware(async (ctx) => {
    if ((ctx.context as Answered).returned instanceof Error) return undefined
    // The library also sets `newSession` when it only renews a session. So `made` can be an older session.
    const made = ctx.context.newSession
    if (isWithFactor(openedWithOf(made))) return undefined
    if (proofs.has(ctx.path)) return stepUp(ctx)
    // If the person has a factor, the library itself ends a session that was opened without the factor. So nothing is
    // left to do here.
    if (made === null || made.user['twoFactorEnabled'] === true) return undefined
    if (!(await endIfEnrolled(db, made.user.id, made.session.token))) return undefined
    const message = 'a second factor was enrolled meanwhile: sign in again'
    throw new APIError('UNAUTHORIZED', { code: 'SECOND_FACTOR_ENROLLED', message })
  })

/** `returned` is the endpoint's answer, or the error that the endpoint threw. */
type Answered = { readonly returned?: unknown }

const proofs: ReadonlySet<string> = new Set(['/two-factor/verify-totp', '/two-factor/verify-backup-code'])

/**
 * Replaces the session after a correct code of the second factor. The old session ends, because somebody else may have
 * the cookie of this session and must not get a session with the factor.
 */
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
 * Returns the value of `openedWith` for a session that is about to begin. After a change of the password, the new
 * session gets the value of the old session.
 *
 * Marks each TOTP code as used, and throws if the code was used before. So one code opens only one session. There is
 * one exception: during enrolment, a used code is accepted, because the secret is new. The code is marked here too, so
 * that it cannot open another session later.
 */
export async function openingOf(
  db: Db,
  userId: string,
  endpoint: GenericEndpointContext | null,
): Promise<OpenedWith> {
  switch (endpoint?.path) {
    case '/sign-in/email':
    case '/two-factor/disable':
      return 'password'
    case '/two-factor/verify-backup-code':
      return 'password+backup_code'
    case '/change-password': {
      const session = await getSessionFromCtx(endpoint)
      // The library verified the old password some time ago. If a reset of the password has ended the session
      // meanwhile, the password of the reset must stay. So the error below undoes the transaction that changes the
      // password. This transaction has already deleted the session, but `isSession` reads outside the transaction and
      // still finds the session. If a reset is in progress, the deletion has waited for it.
      if (session !== null && !(await isSession(db, session.session.token))) throw passwordChanged()
      return openedWithOf(session)
    }
    case '/two-factor/verify-totp': {
      const isNew = await takeCode(db, userId, String(Object(endpoint.body)['code']))
      if (isNew || (await getSessionFromCtx(endpoint))?.user['twoFactorEnabled'] === false)
        return 'password+totp'
      const message = 'this code was used already: wait for the next one, and sign in again'
      throw new APIError('UNAUTHORIZED', { code: 'INVALID_CODE', message })
    }
    default:
      return 'unrecorded'
  }
}

const openedWithOf = (found: { readonly session: Record<string, unknown> } | null): OpenedWith =>
  (found?.session['openedWith'] as OpenedWith | null | undefined) ?? 'unrecorded'

/** Returns the session token in a `Cookie` header, or null. Does not check the signature. */
export function sessionTokenIn(cookies: string | null): string | null {
  const signed = /(?:^|; ?)(?:__Secure-)?countersign\.session_token=([^;]*)/.exec(cookies ?? '')?.[1]
  return signed === undefined ? null : (signed.split('.', 1)[0] ?? null)
}
