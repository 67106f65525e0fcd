import type { GenericEndpointContext } from 'better-auth'
import { APIError, createAuthMiddleware, getSessionFromCtx } from 'better-auth/api'
import type { Context } from '../context.ts'
import { confirmFirst } from '../governance/people/address-proof.ts'
import { takeCode } from '../governance/people/used-codes.ts'

/** Endpoints with a parameter in the path, which its option to switch some off does not know. */
const switchedOff = new Set(['/reset-password/:token', '/callback/:id'])

/** What the sign-in library would do and the service does not let it, whatever the spelling of the path. */
export const authGuards = createAuthMiddleware(async (ctx) => {
  if (switchedOff.has(ctx.path))
    throw new APIError('NOT_FOUND', { code: 'NOT_FOUND', message: 'there is no such endpoint' })
  const body = Object(ctx.body) as Record<string, unknown>
  // It would skip the second factor for ever, past resets, and nobody could end it.
  if (body['trustDevice'])
    throw new APIError('BAD_REQUEST', {
      code: 'TRUST_DEVICE_NOT_OFFERED',
      message: '`trustDevice` is not offered: every sign-in takes the second factor, leave it out',
    })
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
 * Before a session begins: a code of an authenticator that has begun one begins no other. The code that enrols is taken
 * too, and whether it was is nobody's concern there: it is of a new key.
 */
export async function takeCodeOf(
  context: Context,
  userId: string,
  endpoint: GenericEndpointContext | null,
): Promise<void> {
  if (endpoint?.path !== '/two-factor/verify-totp') return
  const isNew = await takeCode(context.db, userId, String(Object(endpoint.body)['code']))
  if (isNew || (await getSessionFromCtx(endpoint)) !== null) return
  const message = 'this code was used: wait for the next one, and sign in again'
  throw new APIError('UNAUTHORIZED', { code: 'INVALID_CODE', message })
}

/** The session token in a `Cookie` header, its signature unread; null for none. */
export function sessionTokenIn(cookies: string | null): string | null {
  const signed = /(?:^|; ?)(?:__Secure-)?countersign\.session_token=([^;]*)/.exec(cookies ?? '')?.[1]
  return signed === undefined ? null : (signed.split('.', 1)[0] ?? null)
}
