import { BASE_ERROR_CODES, type GenericEndpointContext, type BetterAuthPlugin } from 'better-auth'
import { APIError, createAuthMiddleware, getSessionFromCtx } from 'better-auth/api'
import { setSessionCookie } from 'better-auth/cookies'
import { z } from 'zod'
import type { Db } from '../db/schema/index.ts'
import type { Config } from '../shared/config.ts'
import { confirmFirst } from '../governance/access/address-proof.ts'
import {
  isSession,
  endIfPasswordChanged,
  passwordOfAddress,
  passwordsBehind,
  type PasswordThen,
} from '../governance/access/password-in-use.ts'
import { endIfEnrolled, isWithFactor, type OpenedWith } from '../governance/access/second-factor.ts'
import { takeCode } from '../governance/people/guesses.ts'
import type { Configured } from '../governance/context.ts'
import { maySignUp, mustConfirmFirst, refusedToAll } from '../governance/people/sign-up.ts'
import { isOneLine } from '../policy/text.ts'
import { requireHardToGuess } from './password-strength.ts'

export const providerBegin = '/sign-in/provider'
/** Where the sign-in library gets the answer of a provider. */
export const providerAnswer = '/sign-in/provider/answer'
/** The same, with SAML. */
export const providerAssertion = '/sign-in/provider/assertion'
export const samlMetadataPath = '/saml/:organization/metadata'
/** Where the provider says that a person has signed out there. */
export const providerLogout = '/sign-in/provider/logout'
export const passkeyBeginSignIn = '/passkey/begin-sign-in'
export const passkeySignIn = '/passkey/sign-in'
export const passkeyBegin = '/passkey/begin'
export const passkeyAdd = '/passkey/add'

/** They first read a password, a sign-in that waits for its second factor, or an older session. */
const opening: ReadonlySet<string> = new Set([
  '/sign-in/email',
  '/two-factor/verify-totp',
  '/two-factor/verify-backup-code',
  '/two-factor/disable',
])

/**
 * Ends a sign-in during which the password was changed: the library verifies it slowly, and inserts the session
 * afterwards. So the stored password is read before, and again when the session exists; the first time also for an
 * address without an account, so that a sign-in takes the same time for all.
 */
export function passwordWatch(db: Db) {
  const atStart = new WeakMap<Request, readonly PasswordThen[]>()
  const matcher = ({ path }: { path?: string }) => path !== undefined && opening.has(path)
  const before = createAuthMiddleware(async (ctx) => {
    if (ctx.request !== undefined) atStart.set(ctx.request, await passwordsAtStart(db, ctx))
  })
  const after = createAuthMiddleware(async (ctx) => {
    if ((ctx.context as { returned?: unknown }).returned instanceof Error) return
    const seen = (ctx.request === undefined ? undefined : atStart.get(ctx.request)) ?? []
    // A sign-in that waits for its second factor has no session.
    const made = ctx.context.newSession
    const userId = made?.user.id ?? seen[0]?.userId
    if (userId === undefined) return
    const hash = seen.find((one) => one.userId === userId)?.hash
    if (await endIfPasswordChanged(db, userId, hash, made?.session.token ?? null)) throw passwordChanged()
  })
  return {
    id: 'password-watch',
    hooks: { before: [{ matcher, handler: before }], after: [{ matcher, handler: after }] },
  } satisfies BetterAuthPlugin
}

async function passwordsAtStart(db: Db, ctx: GenericEndpointContext): Promise<readonly PasswordThen[]> {
  if (ctx.path !== '/sign-in/email') {
    const { authCookies, createAuthCookie, secret } = ctx.context
    const signed = async (name: string) => (await ctx.getSignedCookie(name, secret)) || null
    return passwordsBehind(
      db,
      await signed(authCookies.sessionToken.name),
      await signed(createAuthCookie('two_factor').name),
    )
  }
  const { email } = Object(ctx.body) as Record<string, unknown>
  // The library refuses what is no address, and looks for no account.
  return z.email().safeParse(email).success ? passwordOfAddress(db, String(email)) : []
}

const passwordChanged = (): APIError =>
  new APIError('UNAUTHORIZED', {
    code: 'PASSWORD_CHANGED',
    message: 'the password was changed meanwhile: sign in again',
  })

/** The library's `disabledPaths` does not work for a path with a parameter. */
const switchedOff = new Set(['/reset-password/:token', '/callback/:id'])

/** Without the second factor, everything else could change the account or show the factor's secret. */
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
  providerBegin,
  providerAnswer,
  providerLogout,
  providerAssertion,
  samlMetadataPath,
  passkeyBeginSignIn,
  passkeySignIn,
])
/** Whoever runs a provider opens sessions of its people. These must not change the account, which acts elsewhere too. */
const byProvider: ReadonlySet<string> = new Set(
  [...withoutFactor].filter((path) => !path.startsWith('/two-factor/')),
)
const boundSession =
  'this session was opened by your company’s provider, and cannot change the account: sign in with your password first'

const factorFirst =
  'this session was opened without your second factor: send a code to `two-factor/verify-totp` first, or sign in again with a code or a passkey'

/**
 * Refuses what the sign-in library would accept and this service does not offer. `ctx.path` is the library's own path,
 * so no other spelling avoids these checks.
 */
export const authGuards = (config: Config) =>
  createAuthMiddleware(async (ctx) => {
    if (switchedOff.has(ctx.path))
      throw new APIError('NOT_FOUND', { code: 'NOT_FOUND', message: 'this endpoint does not exist' })
    const body = Object(ctx.body) as Record<string, unknown>
    // A trusted device would skip the second factor forever, even after a reset, and nobody could end this trust.
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
      // The secret of a new factor is shown only once, in the answer to `/two-factor/enable`. So `get-totp-uri` refuses
      // a session without the factor, even if none is confirmed yet.
      const counts = session?.user['twoFactorEnabled'] === true || ctx.path === '/two-factor/get-totp-uri'
      if (session !== null && counts && !isWithFactor(openedWithOf(session)))
        throw new APIError('FORBIDDEN', { code: 'SECOND_FACTOR_REQUIRED', message: factorFirst })
    }
    if (!byProvider.has(ctx.path)) {
      const session = await getSessionFromCtx(ctx, { disableRefresh: true })
      if (isBound(session))
        throw new APIError('FORBIDDEN', { code: 'SESSION_OF_PROVIDER', message: boundSession })
    }
    if (ctx.path === '/two-factor/enable' || ctx.path === passkeyBegin) {
      const session = await getSessionFromCtx(ctx)
      // Else somebody could sign up with another person's address, and lock that person out with a factor.
      if (session !== null && !session.user.emailVerified)
        throw new APIError('FORBIDDEN', { code: 'EMAIL_NOT_VERIFIED', message: confirmFirst })
    }
    await requireHardToGuess(ctx.path, body)
    // A changed password must end all other sessions.
    if (ctx.path === '/change-password') return { context: { body: { ...body, revokeOtherSessions: true } } }
    return undefined
  })

/**
 * A session that has just proven the second factor is replaced by one that records it. If somebody enrolled a factor
 * during a sign-in with only the password, that session ends.
 */
export const afterSignIn = (db: Db) =>
  createAuthMiddleware(async (ctx) => {
    if ((ctx.context as Answered).returned instanceof Error) return undefined
    // The library also sets `newSession` when it renews one.
    const made = ctx.context.newSession
    if (isBound(made) || isWithFactor(openedWithOf(made))) return undefined
    if (proofs.has(ctx.path)) return stepUp(ctx)
    // Then the library itself ends a session that was opened without the factor.
    if (made === null || made.user['twoFactorEnabled'] === true) return undefined
    if (!(await endIfEnrolled(db, made.user.id, made.session.token))) return undefined
    const message = 'a second factor was enrolled meanwhile: sign in again'
    throw new APIError('UNAUTHORIZED', { code: 'SECOND_FACTOR_ENROLLED', message })
  })

type Answered = { readonly returned?: unknown }

const proofs: ReadonlySet<string> = new Set(['/two-factor/verify-totp', '/two-factor/verify-backup-code'])

/** The old session ends: somebody else may have its cookie, and must not get a session with the factor. */
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
 * How a session that is about to begin was opened. After a change of the password, as the old one was.
 *
 * Marks each TOTP code as used, and throws if it was: one code opens only one session. During enrolment a used code is
 * accepted, because the secret is new.
 */
export async function openingOf(
  db: Db,
  begun: { readonly userId: string } & Record<string, unknown>,
  endpoint: GenericEndpointContext | null,
): Promise<OpenedWith> {
  switch (endpoint?.path) {
    case providerAnswer:
    case providerAssertion:
      return openedWithOf({ session: begun })
    case '/sign-in/email':
      return 'password'
    // The app has gone. A passkey stays.
    case '/two-factor/disable':
      return openedWithOf(await getSessionFromCtx(endpoint)) === 'passkey' ? 'passkey' : 'password'
    case passkeySignIn:
    case passkeyAdd:
      return 'passkey'
    case '/two-factor/verify-backup-code':
      return 'password+backup_code'
    case '/change-password': {
      const session = await getSessionFromCtx(endpoint)
      // If a reset has ended the session since the library verified the old password, the password of the reset must
      // stay: the error undoes the transaction of the change. It has deleted the session already, but `isSession` reads
      // outside of it and still finds one. A reset in progress has made the deletion wait.
      if (session !== null && !(await isSession(db, session.session.token))) throw passwordChanged()
      return openedWithOf(session)
    }
    case '/two-factor/verify-totp': {
      const isNew = await takeCode(db, begun.userId, String(Object(endpoint.body)['code']))
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

const isBound = (found: { readonly session: Record<string, unknown> } | null): boolean =>
  typeof found?.session['providerOrganization'] === 'string'

/** Does not check the signature. */
export function sessionTokenIn(cookies: string | null): string | null {
  const signed = /(?:^|; ?)(?:__Secure-)?countersign\.session_token=([^;]*)/.exec(cookies ?? '')?.[1]
  return signed === undefined ? null : (signed.split('.', 1)[0] ?? null)
}

/**
 * By the installation's `SIGN_UP` setting, before the fields are read. Does not check whether the address is invited.
 */
function requireSignUpOffered({ people }: Pick<Config, 'people'>, email: unknown): void {
  const message = refusedToAll(people.signUp, typeof email === 'string' ? email : '')
  if (message !== null) throw new APIError('FORBIDDEN', { code: 'SIGN_UP_NOT_OFFERED', message })
}

/**
 * No field of a person may be too long or have several lines. Before a sign-up is looked at, so that the answer is the
 * same for an address with an account, and again before a person is stored.
 */
export function requireModestUser(user: { name?: unknown; email?: unknown; image?: unknown }): void {
  const limits = { name: 200, email: 254, image: 2000 } as const
  for (const [field, limit] of Object.entries(limits)) {
    const value = user[field as keyof typeof limits]
    if (typeof value === 'string' && value.length > limit)
      throw new APIError('BAD_REQUEST', {
        message: `\`${field}\` is longer than ${limit} characters: shorten it`,
      })
    // The name is shown in lists and mails, and becomes that of the personal organization.
    if (typeof value === 'string' && !isOneLine(value))
      throw new APIError('BAD_REQUEST', {
        message: `\`${field}\` must be one line without control characters`,
      })
  }
}

/**
 * Throws if the address may not have an account. The library then answers as for an existing one, so a stranger cannot
 * find out who is invited. Returns whether it may only because of an invitation.
 */
export async function requireMaySignUp({ config, db }: Configured, email: string): Promise<boolean> {
  if (await maySignUp(db, config.people, email)) return config.people.signUp.mode === 'invited'
  throw new APIError('FORBIDDEN', { message: 'no account can be created for this address' })
}

/**
 * Unless every address may have an account, throws if this one is not confirmed, with the error for a wrong password:
 * somebody who signed up with another person's address learns nothing.
 */
export async function requireConfirmedToSignIn({ config, db }: Configured, userId: string): Promise<void> {
  if (!mustConfirmFirst(config.people.signUp)) return
  const user = await db
    .selectFrom('users')
    .select('email_verified')
    .where('id', '=', userId)
    .executeTakeFirst()
  if (user?.email_verified !== true)
    throw APIError.from('UNAUTHORIZED', BASE_ERROR_CODES.INVALID_EMAIL_OR_PASSWORD)
}
