import { randomUUID, createHash } from 'node:crypto'
import type { BetterAuthOptions } from 'better-auth'
import { twoFactor } from 'better-auth/plugins/two-factor'
import { publicBase, type Config } from '../shared/config.ts'
import type { Context } from '../governance/context.ts'
import { newId } from '../contract/ids.ts'
import { createPersonalOrganization, healPersonalOrganization } from '../governance/people/organizations.ts'
import { takeAccountMail } from '../governance/people/guesses.ts'
import { endHalfSignIns, proveAddress } from '../governance/access/address-proof.ts'
import {
  afterSignIn,
  authGuards,
  openingOf,
  sessionTokenIn,
  requireConfirmedToSignIn,
  requireMaySignUp,
  requireModestUser,
  passwordWatch,
} from './auth-guards.ts'
import { isError, wordsOf } from '../shared/log.ts'
import { providerSignIn } from './provider-sign-in.ts'
import { passkeys } from './passkeys.ts'
import { terminalLogins } from './terminal-logins.ts'
import { MailText, mailText, type SendMail, type ServiceMail } from '../governance/service-mail.ts'
import type { SessionSecrets } from '../shared/session-secrets.ts'
import { confirmPath, invitationPath, resetPath, secondFactorPath } from '../contract/pages.ts'

const cookiePrefix = 'countersign'
/** With the prefix `__Secure-` if the public address is https. */
export const sessionCookie = `${cookiePrefix}.session_token`
/** The client's address, for rate limits and session lists. Only this service sets it (http-server.ts). */
export const addressHeader = 'x-countersign-address'

const day = 24 * 3600
/** A session ends when `lasts` has passed since its last renewal. Once `renewed` has, its next use renews it. */
export const sessionSeconds = { lasts: 7 * day, renewed: day } as const

/** What this service does not offer, such as other identity providers and deleting an account. */
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
  // With a stolen session, somebody could guess the password here.
  '/verify-password',
  '/error',
  '/ok',
  '/two-factor/send-otp',
  '/two-factor/verify-otp',
]

/** For each client address, in all processes; `window` is in seconds. For each account: password-guesses.ts. */
export const rateLimits = {
  '/sign-in/email': { window: 60, max: 20 },
  '/sign-up/email': { window: 60, max: 10 },
  '/change-password': { window: 60, max: 10 },
  '/request-password-reset': { window: 60, max: 5 },
  '/reset-password': { window: 60, max: 10 },
  '/send-verification-email': { window: 60, max: 5 },
  '/two-factor/*': { window: 60, max: 15 },
  '/sign-in/provider': { window: 60, max: 20 },
  '/sign-in/provider/answer': { window: 60, max: 20 },
  '/sign-in/provider/assertion': { window: 60, max: 20 },
  // One provider sends them for many people, and does not try again.
  '/sign-in/provider/logout': { window: 60, max: 300 },
  '/passkey/begin-sign-in': { window: 60, max: 20 },
  '/passkey/sign-in': { window: 60, max: 20 },
  '/passkey/begin': { window: 60, max: 15 },
  '/passkey/add': { window: 60, max: 15 },
  '/passkey/remove': { window: 60, max: 15 },
  '/terminal/begin': { window: 60, max: 10 },
  // Several terminals behind one address, each every five seconds.
  '/terminal/poll': { window: 60, max: 120 },
}

/** The accepted values of the `Origin` header. `own` is the address to which the request was sent. */
export function ownOrigins(config: Config, own: string | null): string[] {
  const base = new URL(publicBase(config)).origin
  return own === null || own === base ? [base] : [base, own]
}

export function authOptions(
  context: Context,
  mail: SendMail,
  onReset: (email: string, by: Request | undefined) => void,
  /** A request that has proven the address by the link of an invitation. */
  isProven: () => boolean,
) {
  const { config } = context
  const base = publicBase(config)
  const send = async (to: string, text: Omit<ServiceMail, 'to'>): Promise<void> => {
    if (await takeAccountMail(context, to, text.subject)) await mail({ to, ...text })
    else context.log.warn('a mail about an account was not sent: its address has had too many like it')
  }
  // The duration of an answer must not show whether the account exists, so it does not wait for the mail.
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
    // So that unexpected errors get the answer and log line of all others.
    onAPIError: { throw: true },
    ...mailedOptions(context, base, post, { onReset, isProven }),
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
    // After `twoFactor`, which deletes sessions of half a sign-in: `passwordWatch` must not see them.
    plugins: [
      twoFactor({ issuer: 'Countersign', schema: twoFactorTables }),
      passwordWatch(context.db),
      providerSignIn(context),
      terminalLogins(context, addressHeader),
      passkeys(context, (email, ...change) => post(email, passkeyMail(base, ...change))),
    ],
    databaseHooks: databaseHooks(context),
  } satisfies BetterAuthOptions
}

function signInLog(context: Context) {
  return {
    level: 'error',
    // Declared as text, but the library also passes errors.
    log: (_level, message: unknown, ...more: unknown[]) => {
      const err = [message, ...more].find(isError)
      const words = typeof message === 'string' ? wordsOf(message) : 'something failed'
      context.log.warn(err === undefined ? {} : { err }, `sign-in: ${words}`)
    },
  } satisfies BetterAuthOptions['logger']
}

type Post = (to: string, text: Omit<ServiceMail, 'to'>) => Promise<void>

function mailedOptions(
  context: Context,
  base: string,
  post: Post,
  {
    onReset,
    isProven,
  }: {
    readonly onReset: (email: string, by: Request | undefined) => void
    readonly isProven: () => boolean
  },
) {
  return {
    emailAndPassword: {
      enabled: true,
      minPasswordLength: 8,
      maxPasswordLength: 128,
      // It would show whether the address already had an account.
      autoSignIn: false,
      revokeSessionsOnPasswordReset: true,
      resetPasswordTokenExpiresIn: 3600,
      sendResetPassword: ({ user, token }) => post(user.email, resetMail(base, token)),
      // A mailed token also proves that the address belongs to the person.
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
      sendVerificationEmail: async ({ user, token }) => {
        if (!isProven()) await post(user.email, verifyMail(base, token))
      },
      // Before the library marks the address as verified, so that one transaction marks it and ends the account's older
      // sessions, factors and keys.
      beforeEmailVerification: (user, request) =>
        proveAddress(context.db, user.id, sessionTokenIn(request?.headers.get('cookie') ?? null)),
    },
  } satisfies BetterAuthOptions
}

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
          const openedWith = await openingOf(context.db, session, endpoint)
          await healPersonalOrganization(context, session.userId)
          // The library itself would store only the first 64 bits of an IPv6 address.
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
    // No request can set or read it.
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
    // No request can set it, and renewing a session does not change it.
    additionalFields: {
      openedWith: { type: 'string', fieldName: 'opened_with', required: false, input: false },
      providerOrganization: {
        type: 'string',
        fieldName: 'provider_organization',
        required: false,
        input: false,
      },
      providerSubject: {
        type: 'string',
        fieldName: 'provider_subject',
        required: false,
        input: false,
        returned: false,
      },
      providerSession: {
        type: 'string',
        fieldName: 'provider_session',
        required: false,
        input: false,
        returned: false,
      },
    },
    expiresIn: sessionSeconds.lasts,
    updateAge: sessionSeconds.renewed,
    // With the cookie cache, the second factor could be bypassed in two ways, and an ended session would stay valid.
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

/**
 * In the format of the library, which signs and encrypts with the first of `secrets`. An encrypted value names the
 * version of its secret. Without `secret`, the library would look for one in the environment.
 */
function sessionKeys(given: SessionSecrets): Required<Pick<BetterAuthOptions, 'secret' | 'secrets'>> {
  const { sessionSecret, oldSessionSecrets } = given
  const secrets = [sessionSecret, ...oldSessionSecrets].map((value) => ({ version: versionOf(value), value }))
  return { secret: sessionSecret, secrets }
}

/** Depends on nothing but the secret, so that it stays when the order of the secrets changes. */
const versionOf = (secret: string): number =>
  Number.parseInt(createHash('sha256').update(`version of ${secret}`).digest('hex').slice(0, 8), 16)

type Text = Omit<ServiceMail, 'to'>

/* Links begin with `base`. A token is hexadecimal, base64url or a JWT, so it needs no escaping. */

export const verifyMail = (base: string, token: string): Text => ({
  subject: 'Confirm your address',
  text: mailText`Somebody, probably you, signed up to Countersign with this address. Open this link within a day to confirm that it is yours:

${MailText.link(base, `${confirmPath}?token=${token}`)}

If it was not you, do nothing.
`,
})

export const signUpAgainMail = (base: string): Text => ({
  subject: 'You already have an account',
  text: mailText`Somebody, probably you, tried to sign up to Countersign with this address, which already has an account. Sign in instead.
If you have forgotten the password, ask for a new one:

${MailText.link(base, resetPath)}

If it was not you, do nothing.
`,
})

export const passkeyMail = (base: string, change: 'added' | 'removed', name: string): Text => ({
  subject:
    change === 'added' ? 'A passkey was added to your account' : 'A passkey was removed from your account',
  text: mailText`The passkey ${name} was ${MailText.sentence(change === 'added' ? 'added to' : 'removed from')} your account of Countersign. Your passkeys are here:

${MailText.link(base, secondFactorPath)}

If it was not you, set a new password at once, and remove passkeys that you do not know:

${MailText.link(base, resetPath)}
`,
})

export const resetMail = (base: string, token: string): Text => ({
  subject: 'A new password',
  text: mailText`Somebody, probably you, asked for a new password for Countersign. This link sets one. It works once, within an hour, and
ends every session:

${MailText.link(base, `${resetPath}?token=${token}`)}

If it was not you, do nothing: the password stays as it is.
`,
})

/** `inviter` is a confirmed address. `organization` is null for readers who do not know it (`INVITATION_NAMES`). */
export const invitationMail = (
  base: string,
  token: string,
  {
    organization,
    role,
    inviter,
    proof,
  }: {
    readonly organization: string | null
    readonly role: string
    readonly inviter: string
    /** Shows that the reader of the mail has the address. */
    readonly proof: string | null
  },
): Text => ({
  subject: 'An invitation to Countersign',
  text: mailText`${MailText.address(inviter)} invites you to ${organization === null ? mailText`an organization` : mailText`the organization ${organization}`} as ${MailText.sentence(role)}.

On this page you sign in or make an account with this address, and accept. The link is yours alone: do not pass it on.

${MailText.link(base, `${invitationPath}?token=${token}${proof === null ? '' : `&proof=${proof}`}`)}

If you do not expect this invitation, do nothing.
`,
})
