import type { Request } from 'express'
import type { Context } from '../governance/context.ts'
import {
  authenticate,
  forget,
  identityOfSession,
  recall,
  type Identity,
} from '../governance/access/identity.ts'
import { requireScope } from '../governance/access/recheck.ts'
import { covers, type Scope } from '../governance/access/scopes.ts'
import type { Auth } from './auth.ts'
import { ApiError } from './errors.ts'

/** Finds the sender of the request from the API key or the session. Throws `unauthenticated` if there is no sender. */
export async function requireIdentity(
  context: Pick<Context, 'db' | 'keys'>,
  auth: Auth,
  request: Request,
): Promise<Identity> {
  const identity = await identify(context, auth, request)
  if (identity === null) throw unauthenticated()
  return identity
}

const unauthenticated = (): ApiError =>
  new ApiError(
    'unauthenticated',
    'send `Authorization: Bearer <API key>` with a key that is valid, or sign in',
  )

/**
 * Finds the sender of an agent's question. If a key asks often, the identity comes from a cache. Before the rules
 * decide a call, the key, the scope and the role are checked again. If an answer is given without this second check,
 * `confirm` must be called first. `confirm` looks up a cached key again (docs/decisions/0049).
 */
export async function asking(
  context: Pick<Context, 'db' | 'keys'>,
  auth: Auth,
  request: Request,
  scope: Scope | null,
): Promise<{ readonly identity: Identity; readonly confirm: () => Promise<void> }> {
  const anew = async (): Promise<Identity> => {
    const identity = await requireIdentity(context, auth, request)
    requireScope(identity.scopes, scope, identity.keyName)
    return identity
  }
  const { authorization } = request.headers
  const recalled = authorization === undefined ? null : await recall(context.keys, authorization)
  if (recalled === null && authorization !== undefined) throw unauthenticated()
  // A cached key may have got the scope later. So if the cached key lacks the scope, the key is looked up again.
  if (recalled === null || (scope !== null && !covers(recalled.identity.scopes, scope)))
    return { identity: await anew(), confirm: async () => {} }
  const { identity, isRemembered } = recalled
  const confirm = async (): Promise<void> => {
    if (!isRemembered) return
    forget(context.keys, authorization)
    await anew()
  }
  return { identity, confirm }
}

/** Returns the sender of the request, or null. If a request has an `Authorization` header, its cookie is ignored. */
export async function identify(
  context: Pick<Context, 'db' | 'keys'>,
  auth: Auth,
  request: Request,
): Promise<Identity | null> {
  if (request.headers.authorization !== undefined)
    return authenticate(context.keys, request.headers.authorization)
  const session = await auth.userOf(request)
  if (session === null) return null
  const wanted = request.headers['x-organization-id']
  return identityOfSession(context.db, session, typeof wanted === 'string' ? wanted : null)
}
