import type { Request, Response } from 'express'
import type { Api, Organization, Person } from '../../console/visit.ts'
import type { Context } from '../../governance/context.ts'
import { identityOfSession, type Identity } from '../../governance/access/identity.ts'
import { publicBase, type Config } from '../../shared/config.ts'
import { addressOf } from '../client-address.ts'
import { goneSignal } from '../dispatch.ts'
import { ApiError } from '../errors.ts'
import { requestIdOf } from '../request-id.ts'
import type { Mounted } from '../route.ts'
import { apiFor } from './in-process.ts'

/** A person who is signed in. Pages accept no API keys. */
export interface Signed {
  readonly identity: Identity
  readonly sessionId: string
  /** True if a day has passed since the session began or was last renewed. The session should be renewed then. */
  readonly isDue: boolean
}

/**
 * Renews the session if it is due and the person opens a page. An open page also sends requests by itself. These
 * requests do not renew the session. So the session can end after the person has left, even if a page stays open.
 */
export async function renewed(
  { auth }: Pick<Mounted, 'auth'>,
  request: Request,
  response: Response,
  { isDue }: Signed,
): Promise<void> {
  const mode = request.headers['sec-fetch-mode']
  if (!isDue || (mode !== undefined && mode !== 'navigate')) return
  const { cookies } = await auth.get(request, '/get-session')
  if (cookies.length > 0) response.append('Set-Cookie', [...cookies])
}

export async function signedIn(
  context: Context,
  services: Mounted,
  request: Request,
): Promise<Signed | null> {
  if (request.headers.authorization !== undefined) return null
  const session = await services.auth.userOf(request)
  const identity = session && (await identityOfSession(context.db, session, wantedBy(request)))
  return session && identity && { identity, sessionId: session.sessionId, isDue: session.isDue }
}

/** Returns the public API with the rights of this session. */
export function apiOf(
  context: Context,
  services: Mounted,
  { request, response, signed }: { request: Request; response: Response; signed: Signed },
): Api {
  return apiFor(context, services, {
    identity: signed.identity,
    ip: addressOf(request),
    requestId: requestIdOf(response),
    signal: () => goneSignal(response, services),
    identify: async () => {
      const now = await signedIn(context, services, request)
      if (now === null) throw new ApiError('unauthenticated', 'the session has ended: sign in again')
      return now.identity
    },
  })
}

const cookie = 'countersign.organization'

/**
 * Returns the `Set-Cookie` line of a cookie that names an organization. The person wants to see the lists of this
 * organization. The cookie gives no access.
 */
export function organizationCookie(config: Config, id: string): string {
  const secure = publicBase(config).startsWith('https:') ? '; Secure' : ''
  return `${cookie}=${id}; Path=/console; HttpOnly; SameSite=Lax; Max-Age=31536000${secure}`
}

export const organizationId = /^org_[0-9A-Za-z]{26}$/

export async function personOf(api: Api, request: Request): Promise<Person> {
  const me = await api.call<Omit<Person, 'organization'>>('GET /me')
  if (!me.ok) throw new ApiError(me.code === 'mfa_required' ? 'mfa_required' : 'unavailable', me.message)
  const { user, organizations } = me.body
  return { user, organizations, organization: chosen(organizations, request) }
}

/**
 * Returns the organization that the cookie names, if the person is a member of it. Otherwise returns the first
 * organization that is not personal, or else the personal one. Returns null if the person is in no organization.
 */
function chosen(organizations: readonly Organization[], request: Request): Organization | null {
  const wanted = wantedBy(request)
  return (
    organizations.find(({ id }) => id === wanted) ??
    organizations.find(({ personal }) => !personal) ??
    organizations[0] ??
    null
  )
}

const wantedBy = (request: Request): string | null =>
  /(?:^|; ?)countersign\.organization=(org_\w{26})(?:;|$)/.exec(request.headers.cookie ?? '')?.[1] ?? null
