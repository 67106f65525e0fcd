import { randomUUID } from 'node:crypto'
import type { BetterAuthOptions } from 'better-auth'
import { twoFactor } from 'better-auth/plugins/two-factor'
import { publicBase, type Config } from '../shared/config.ts'
import type { Context } from '../governance/context.ts'
import { newId } from '../contract/ids.ts'
import { createPersonalOrganization, healPersonalOrganization } from '../governance/people/organizations.ts'
import { takeAccountMail } from '../governance/people/guesses.ts'
import { endHalfSignIns, proveAddress } from '../governance/access/address-proof.ts'
import { afterSignIn, authGuards, openingOf, sessionTokenIn } from './auth-guards.ts'
import { resetMail, signUpAgainMail, verifyMail } from './auth-mails.ts'
import { passwordWatch } from './password-watch.ts'
import { sessionKeys } from './session-keys.ts'
import { isError, wordsOf } from '../shared/log.ts'
import type { SendMail, ServiceMail } from '../governance/service-mail.ts'
import { requireConfirmedToSignIn, requireMaySignUp, requireModestUser } from './sign-up-guards.ts'

const cookiePrefix = 'countersign'
/** The library puts the prefix `__Secure-` before this name if the public address is https. */
export const sessionCookie = `${cookiePrefix}.session_token`
/**
 * The header that carries the client's address for rate limits and session lists. Only this service sets the header
 * (client-address.ts).
 */
export const addressHeader = 'x-countersign-address'

const day = 24 * 3600
/**
 * In seconds. A session ends when `lasts` has passed since its last renewal. When `renewed` has passed since the last
 * renewal, the next use of the session renews it.
 */
export const sessionSeconds = { lasts: 7 * day, renewed: day } as const

/**
 * Endpoints of the library that this service does not offer. Examples: signing in with another identity provider, and
 * deleting an account.
 */
const disabledPaths = [
  '/sign-in/social',
  '/link-social',
  '/unlink-account',
  '/list-accounts',
  '/account-info',
  '/get-access-token',
  '/refresh-token',
  '/change-email',
  '/delete-user',
  '/delete-user/callback',
  '/update-session',
  // Somebody with a stolen session could guess the password at this endpoint.
  '/verify-password',
  '/error',
  '/ok',
  '/two-factor/send-otp',
  '/two-factor/verify-otp',
]

/**
 * The limits for each client address. `window` is in seconds. Requests are counted in the database, so all processes
 * share the counts. The limits for each account are in password-guesses.ts.
 */
export const rateLimits = {
  '/sign-in/email': { window: 60, max: 20 },
  '/sign-up/email': { window: 60, max: 10 },
  '/change-password': { window: 60, max: 10 },
  '/request-password-reset': { window: 60, max: 5 },
  '/reset-password': { window: 60, max: 10 },
  '/send-verification-email': { window: 60, max: 5 },
  '/two-factor/*': { window: 60, max: 15 },
}

/**
 * Returns the accepted values of the `Origin` header: the public address, and `own`. `own` is the address to which the
 * request was sent; null if it is not known.
 */
export function ownOrigins(config: Config, own: string | null): string[] {
  const base = new URL(publicBase(config)).origin
  return own === null || own === base ? [base] : [base, own]
}

/** Options of the sign-in library: our tables, mails and rules about people. */
export function authOptions(
  context: Context,
  mail: SendMail,
  onReset: (email: string, by: Request | undefined) => void,
) {
  const { config } = context
  const base = publicBase(config)
  const send = async (to: string, text: Omit<ServiceMail, 'to'>): Promise<void> => {
    if (await takeAccountMail(context, to, text.subject)) await mail({ to, ...text })
    else context.log.warn('a mail about an account was not sent: its address has had too many like it')
  }
  // The answer does not wait for the mail: the duration of an answer must not show whether the account exists.
  const post: Post = async (to, text) => {
    send(to, text).catch((error: Error) =>
      context.log.warn({ err: error }, 'a mail about an account was not sent'),
    )
  }
  return {
    appName: 'Countersign',
    baseURL: new URL(base).origin,
    basePath: '/api/auth',
    ...sessionKeys(config),
    database: { db: context.db, type: 'postgres', transaction: true },
    trustedOrigins: async (request?: Request) =>
      ownOrigins(config, request === undefined ? null : new URL(request.url).origin),
    disabledPaths,
    telemetry: { enabled: false },
    logger: signInLog(context),
    // With this setting the library throws unexpected errors. So these errors get the same answer and log line as all
    // other errors.
    onAPIError: { throw: true },
    ...mailedOptions(context, base, post, onReset),
    rateLimit: {
      enabled: true,
      storage: 'database',
      window: 10,
      max: 100,
      customRules: rateLimits,
      modelName: 'auth_rate_limits',
      fields: { lastRequest: 'last_request' },
    },
    advanced: {
      cookiePrefix,
      useSecureCookies: base.startsWith('https:'),
      defaultCookieAttributes: { httpOnly: true, sameSite: 'lax', path: '/' },
      ipAddress: { ipAddressHeaders: [addressHeader] },
      database: { generateId: ({ model }) => (model === 'user' ? newId('user') : randomUUID()) },
    },
    ...tables,
    hooks: { before: authGuards(config), after: afterSignIn(context.db) },
    // `passwordWatch` must come after `twoFactor`. If a sign-in needs a second factor, `twoFactor` deletes the session
    // of the sign-in, and `passwordWatch` must not see this session.
    plugins: [twoFactor({ issuer: 'Countersign', schema: twoFactorTables }), passwordWatch(context.db)],
    databaseHooks: databaseHooks(context),
  } satisfies BetterAuthOptions
}

/** Writes the library's messages to our log. */
function signInLog(context: Context) {
  return {
    level: 'error',
    // The library declares `message` as text, but it also passes errors there.
    log: (_level, message: unknown, ...more: unknown[]) => {
      const err = [message, ...more].find(isError)
      const words = typeof message === 'string' ? wordsOf(message) : 'something failed'
      context.log.warn(err === undefined ? {} : { err }, `sign-in: ${words}`)
    },
  } satisfies BetterAuthOptions['logger']
}

type Post = (to: string, text: Omit<ServiceMail, 'to'>) => Promise<void>

/** Options for mails that reset a password or confirm an address. */
function mailedOptions(
  context: Context,
  base: string,
  post: Post,
  onReset: (email: string, by: Request | undefined) => void,
) {
  return {
    emailAndPassword: {
      enabled: true,
      minPasswordLength: 8,
      maxPasswordLength: 128,
      // An automatic sign-in after the sign-up would show whether the address already had an account.
      autoSignIn: false,
      revokeSessionsOnPasswordReset: true,
      resetPasswordTokenExpiresIn: 3600,
      sendResetPassword: ({ user, token }) => post(user.email, resetMail(base, token)),
      // The person set the password with a mailed token. This also proves that the mail address belongs to the person.
      onPasswordReset: async ({ user }, by) => {
        onReset(user.email, by)
        await proveAddress(context.db, user.id, null)
        await endHalfSignIns(context.db, user.id)
      },
      onExistingUserSignUp: ({ user }) => post(user.email, signUpAgainMail(base)),
    },
    emailVerification: {
      sendOnSignUp: true,
      expiresIn: day,
      sendVerificationEmail: ({ user, token }) => post(user.email, verifyMail(base, token)),
      // Runs before the library marks the address as verified. So `proveAddress` can mark the address, and end the
      // older sessions, factors and keys of the account, in one transaction.
      beforeEmailVerification: (user, request) =>
        proveAddress(context.db, user.id, sessionTokenIn(request?.headers.get('cookie') ?? null)),
    },
  } satisfies BetterAuthOptions
}

/** Checks and completes the rows of people and sessions before the library writes them. */
function databaseHooks(context: Context) {
  return {
    user: {
      create: {
        before: async (user) => {
          requireModestUser(user)
          return { data: { ...user, invited: await requireMaySignUp(context, user.email) } }
        },
        after: (user) => createPersonalOrganization(context, user),
      },
      update: { before: async (user) => requireModestUser(user) },
    },
    session: {
      create: {
        before: async (session, endpoint) => {
          await requireConfirmedToSignIn(context, session.userId)
          const openedWith = await openingOf(context.db, session.userId, endpoint)
          await healPersonalOrganization(context, session.userId)
          // The client's address is taken from `addressHeader`. The library itself would store only the first 64 bits
          // of an IPv6 address.
          const ipAddress = endpoint?.headers?.get(addressHeader) ?? null
          return { data: { ...session, ipAddress, openedWith } }
        },
      },
    },
  } satisfies BetterAuthOptions['databaseHooks']
}

const times = { createdAt: 'created_at', updatedAt: 'updated_at' }
const tables = {
  user: {
    modelName: 'users',
    fields: { emailVerified: 'email_verified', ...times },
    // No request can set or read `invited`.
    additionalFields: { invited: { type: 'boolean', required: false, input: false, returned: false } },
  },
  session: {
    modelName: 'auth_sessions',
    fields: {
      userId: 'user_id',
      expiresAt: 'expires_at',
      ipAddress: 'ip_address',
      userAgent: 'user_agent',
      ...times,
    },
    // No request can set `openedWith`, and renewing a session does not change it.
    additionalFields: {
      openedWith: { type: 'string', fieldName: 'opened_with', required: false, input: false },
    },
    expiresIn: sessionSeconds.lasts,
    updateAge: sessionSeconds.renewed,
    // The cookie cache is off. With the cache, the second factor could be bypassed in two ways, and an ended session
    // would stay valid.
    cookieCache: { enabled: false },
  },
  account: {
    modelName: 'auth_accounts',
    fields: {
      accountId: 'account_id',
      providerId: 'provider_id',
      userId: 'user_id',
      accessToken: 'access_token',
      refreshToken: 'refresh_token',
      idToken: 'id_token',
      accessTokenExpiresAt: 'access_token_expires_at',
      refreshTokenExpiresAt: 'refresh_token_expires_at',
      ...times,
    },
  },
  verification: { modelName: 'auth_verifications', fields: { expiresAt: 'expires_at', ...times } },
} as const

const twoFactorTables = {
  user: { fields: { twoFactorEnabled: 'two_factor_enabled' } },
  twoFactor: {
    modelName: 'auth_two_factors',
    fields: {
      userId: 'user_id',
      backupCodes: 'backup_codes',
      failedVerificationCount: 'failed_verification_count',
      lockedUntil: 'locked_until',
    },
  },
} as const
