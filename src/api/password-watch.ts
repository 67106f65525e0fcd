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
 * Endpoints that open a session. Each of them first reads what allows the new session: a password, a sign-in that waits
 * for its second factor, or an older session.
 */
const opening: ReadonlySet<string> = new Set([
  '/sign-in/email',
  '/two-factor/verify-totp',
  '/two-factor/verify-backup-code',
  '/two-factor/disable',
])

/**
 * Ends a sign-in if the password was changed while the sign-in was under way. The library verifies the password, which
 * is slow, and inserts the session later. So the stored password is read before the library reads it, and again after
 * the session exists. The first read also happens for addresses without an account, so that a sign-in takes the same
 * time for all addresses.
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
  // The library refuses a text that is not an address before it looks for an account. So no password is read here.
  return z.email().safeParse(email).success ? passwordOfAddress(db, String(email)) : []
}

export const passwordChanged = (): APIError =>
  new APIError('UNAUTHORIZED', {
    code: 'PASSWORD_CHANGED',
    message: 'the password was changed meanwhile: sign in again',
  })
