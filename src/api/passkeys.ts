import type { BetterAuthPlugin, GenericEndpointContext } from 'better-auth'
import { APIError, createAuthEndpoint, getSessionFromCtx, sessionMiddleware } from 'better-auth/api'
import { setSessionCookie } from 'better-auth/cookies'
import { z } from 'zod'
import type { Context } from '../governance/context.ts'
import {
  addPasskey,
  beginPasskey,
  beginPasskeySignIn,
  challengeSeconds,
  endIfPasskeyRemoved,
  listFactors,
  newCredential,
  provePasskey,
  removePasskey,
  renamePasskey,
  usedCredential,
} from '../governance/people/passkeys.ts'
import { isOneLine } from '../policy/text.ts'
import { passkeyAdd, passkeyBegin, passkeyBeginSignIn, passkeySignIn } from './auth-guards.ts'
import { told } from './provider-sign-in.ts'

/*
 * Passkeys, as endpoints of the sign-in library: so they have the library’s limits for each client address, its sessions
 * and its cookies. What a session may do is checked by auth-guards.ts, and again with the row of the person locked.
 */

const name = z
  .string()
  .trim()
  .min(1)
  .max(100)
  .refine(isOneLine, { error: 'must be one line without control characters' })
const id = z.string().max(100)
const password = z.string().max(128)

/** Tells the person by mail. */
export type TellPerson = (email: string, change: 'added' | 'removed', passkey: string) => Promise<void>

const challengeCookie = 'passkey_challenge'

/** Only the browser that began can end it. */
async function keepChallenge(ctx: GenericEndpointContext, challenge: string): Promise<void> {
  const { name, attributes } = ctx.context.createAuthCookie(challengeCookie, { maxAge: challengeSeconds })
  await ctx.setSignedCookie(name, challenge, ctx.context.secret, attributes)
}

async function takeChallenge(ctx: GenericEndpointContext): Promise<string | null> {
  const { name, attributes } = ctx.context.createAuthCookie(challengeCookie)
  const challenge = (await ctx.getSignedCookie(name, ctx.context.secret)) || null
  ctx.setCookie(name, '', { ...attributes, maxAge: 0 })
  return challenge
}

async function openSession(ctx: GenericEndpointContext, userId: string): Promise<string> {
  const { internalAdapter } = ctx.context
  const user = await internalAdapter.findUserById(userId)
  if (user === null) throw new APIError('UNAUTHORIZED', { message: 'the account is gone' })
  const session = await internalAdapter.createSession(userId, false)
  await setSessionCookie(ctx, { session, user })
  return session.token
}

const withSession = { use: [sessionMiddleware] }

export function passkeys(context: Context, tell: TellPerson) {
  return {
    id: 'passkeys',
    endpoints: { ...signingIn(context), ...changing(context, tell) },
  } satisfies BetterAuthPlugin
}

function signingIn(context: Context) {
  return {
    beginPasskeySignIn: createAuthEndpoint(passkeyBeginSignIn, { method: 'POST' }, async (ctx) => {
      const options = await told(() => beginPasskeySignIn(context))
      await keepChallenge(ctx, options.challenge)
      return ctx.json(options)
    }),
    signInWithPasskey: createAuthEndpoint(
      passkeySignIn,
      { method: 'POST', body: z.object({ credential: usedCredential }) },
      async (ctx) => {
        const challenge = await takeChallenge(ctx)
        const before = await getSessionFromCtx(ctx, { disableRefresh: true })
        const { userId, passkeyId } = await told(() => provePasskey(context, ctx.body.credential, challenge))
        const token = await openSession(ctx, userId)
        if (await endIfPasskeyRemoved(context.db, passkeyId, token))
          throw new APIError('UNAUTHORIZED', { message: 'this passkey was removed meanwhile' })
        // A session without the factor must not stay beside the new one.
        if (before?.user.id === userId) await ctx.context.internalAdapter.deleteSession(before.session.token)
        return ctx.json({ signed_in: true })
      },
    ),
  }
}

function changing(context: Context, tell: TellPerson) {
  return {
    listPasskeys: createAuthEndpoint('/passkey/list', { method: 'GET', ...withSession }, async (ctx) =>
      ctx.json(await listFactors(context.db, ctx.context.session.user.id)),
    ),
    beginPasskey: createAuthEndpoint(
      passkeyBegin,
      { method: 'POST', body: z.object({ password }), ...withSession },
      async (ctx) => {
        const { user, session } = ctx.context.session
        await ctx.context.password.checkPassword(user.id, ctx)
        const options = await told(() => beginPasskey(context, { user, sessionId: session.id }))
        await keepChallenge(ctx, options.challenge)
        return ctx.json(options)
      },
    ),
    addPasskey: createAuthEndpoint(
      passkeyAdd,
      { method: 'POST', body: z.object({ name, credential: newCredential }), ...withSession },
      async (ctx) => {
        const challenge = await takeChallenge(ctx)
        const { email } = ctx.context.session.user
        const added = await told(() => addPasskey(context, ownerOf(ctx), { ...ctx.body, challenge }))
        // The first second factor has ended all sessions, this one too.
        if (added.isFirst) await openSession(ctx, ownerOf(ctx).userId)
        await tell(email, 'added', ctx.body.name)
        return ctx.json({ id: added.id, name: ctx.body.name })
      },
    ),
    renamePasskey: createAuthEndpoint(
      '/passkey/rename',
      { method: 'POST', body: z.object({ id, name }), ...withSession },
      async (ctx) => {
        await told(() => renamePasskey(context, ownerOf(ctx), ctx.body))
        return ctx.json({ id: ctx.body.id, name: ctx.body.name })
      },
    ),
    removePasskey: createAuthEndpoint(
      '/passkey/remove',
      { method: 'POST', body: z.object({ id, password }), ...withSession },
      async (ctx) => {
        const { email, id: userId } = ctx.context.session.user
        await ctx.context.password.checkPassword(userId, ctx)
        const removed = await told(() => removePasskey(context, ownerOf(ctx), ctx.body.id))
        await tell(email, 'removed', removed)
        return ctx.json({ removed: true })
      },
    ),
  }
}

const ownerOf = (ctx: { context: { session: { user: { id: string }; session: { id: string } } } }) => ({
  userId: ctx.context.session.user.id,
  sessionId: ctx.context.session.session.id,
})
