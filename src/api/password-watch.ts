import type { BetterAuthPlugin, GenericEndpointContext } from 'better-auth'
import { APIError, createAuthMiddleware } from 'better-auth/api'
import { z } from 'zod'
import type { Db } from '../db/schema/index.ts'
import {
  endIfPasswordChanged,
  passwordOfAddress,
  passwordsBehind,
  type PasswordThen,
} from '../governance/access/password-in-use.ts'

/**
 * Endpoints that open a session. Each endpoint first reads one of these: a password, a sign-in that waits for its
 * second factor, or an older session.
 */
const opening: ReadonlySet<string> = new Set([
  '/sign-in/email',
  '/two-factor/verify-totp',
  '/two-factor/verify-backup-code',
  '/two-factor/disable',
])

/**
 * Ends a sign-in if the password was changed during the sign-in. The library verifies the password slowly, and inserts
 * the session afterwards. So this plugin reads the stored password twice: before the library reads it, and after the
 * session exists. The plugin also does the first read for an address without an account, so that a sign-in takes the
 * same time for all addresses.
 */
export function passwordWatch(db: Db) {
  /** The stored passwords at the start of each request that is under way. */
  const atStart = new WeakMap<Request, readonly PasswordThen[]>()
  const matcher = ({ path }: { readonly path?: string }) => path !== undefined && opening.has(path)
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
  // If the text is not an address, the library refuses the sign-in and looks for no account. So no password is read
  // here.
  return z.email().safeParse(email).success ? passwordOfAddress(db, String(email)) : []
}

export const passwordChanged = (): APIError =>
  new APIError('UNAUTHORIZED', {
    code: 'PASSWORD_CHANGED',
    message: 'the password was changed meanwhile: sign in again',
  })
