import { APIError, createAuthMiddleware, getSessionFromCtx } from 'better-auth/api'
import { confirmFirst } from '../governance/people/address-proof.ts'

/** What the sign-in library would do and the service does not let it, whatever the spelling of the path. */
export const authGuards = createAuthMiddleware(async (ctx) => {
  if (ctx.path === '/two-factor/enable') {
    const session = await getSessionFromCtx(ctx)
    // The factor of whoever signed up with somebody else's address would lock its owner out.
    if (session !== null && !session.user.emailVerified)
      throw new APIError('FORBIDDEN', { code: 'EMAIL_NOT_VERIFIED', message: confirmFirst })
  }
})

/** The session token in a `Cookie` header, its signature unread; null for none. */
export function sessionTokenIn(cookies: string | null): string | null {
  const signed = /(?:^|; ?)(?:__Secure-)?countersign\.session_token=([^;]*)/.exec(cookies ?? '')?.[1]
  return signed === undefined ? null : (signed.split('.', 1)[0] ?? null)
}
