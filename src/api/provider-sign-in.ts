import type { BetterAuthPlugin, GenericEndpointContext } from 'better-auth'
import { APIError, createAuthEndpoint, getSessionFromCtx } from 'better-auth/api'
import { setSessionCookie } from 'better-auth/cookies'
import { z } from 'zod'
import { isWithFactor } from '../governance/access/second-factor.ts'
import type { Context } from '../governance/context.ts'
import { DomainError } from '../governance/errors.ts'
import {
  beginProviderSignIn,
  ended,
  finishProviderSignIn,
  stillHolds,
  type ProvenPerson,
} from '../governance/signin/enter.ts'
import { endBackChannel } from '../governance/signin/logout.ts'
import { acsUrl, entityId } from '../governance/signin/provider.ts'
import { longestResponse, samlMetadata } from '../governance/signin/saml.ts'
import {
  providerAnswer,
  providerAssertion,
  providerBegin,
  providerLogout,
  samlMetadataPath,
} from './auth-guards.ts'
import { statusOf } from './errors.ts'

/*
 * The sign-in with a company’s provider, as endpoints of the sign-in library: so it has the library’s limits for each
 * client address, its sessions and its cookies.
 */

const stateCookie = 'provider_state'
const logoutBody = z.object({ organization: z.string().max(100), token: z.string() })
const begunBody = z.object({ email: z.string().max(254), place: z.string().max(500).default('/console/') })
const text = z.string().max(8_192).optional()
const answerQuery = z.looseObject({
  organization: z.string().max(100),
  state: text,
  code: text,
  iss: text,
  error: text,
})

const assertionBody = z.object({
  organization: z.string().max(100),
  state: z.string().max(500),
  response: z.string().max(longestResponse),
})

export function providerSignIn(context: Context) {
  return {
    id: 'provider-sign-in',
    endpoints: {
      beginProviderSignIn: createAuthEndpoint(
        providerBegin,
        { method: 'POST', body: begunBody },
        async (ctx) => {
          const { url, state } = await told(() => beginProviderSignIn(context, ctx.body))
          const { name, attributes } = ctx.context.createAuthCookie(stateCookie, { maxAge: 600 })
          await ctx.setSignedCookie(name, state, ctx.context.secret, attributes)
          return ctx.json({ url })
        },
      ),
      finishProviderSignIn: createAuthEndpoint(
        providerAnswer,
        { method: 'GET', query: answerQuery },
        async (ctx) => {
          const { organization: organizationId, ...sent } = ctx.query
          const answer = new URLSearchParams()
          for (const [key, value] of Object.entries(sent))
            if (typeof value === 'string') answer.append(key, value)
          return ctx.json(await finish(context, ctx, organizationId, answer))
        },
      ),
      finishSamlSignIn: createAuthEndpoint(
        providerAssertion,
        { method: 'POST', body: assertionBody },
        async (ctx) => {
          const { organization, state, response } = ctx.body
          const answer = new URLSearchParams({ state, SAMLResponse: response })
          return ctx.json(await finish(context, ctx, organization, answer))
        },
      ),
      samlMetadata: createAuthEndpoint(samlMetadataPath, { method: 'GET' }, async (ctx) => {
        const organization = ctx.params['organization']
        if (!/^org_[0-9A-Za-z]{26}$/.test(organization))
          throw new APIError('NOT_FOUND', { code: 'NOT_FOUND', message: 'there is no such organization' })
        const { config } = context
        const us = { entityId: entityId(config, organization), acsUrl: acsUrl(config, organization) }
        return new Response(samlMetadata(us), { headers: { 'content-type': 'application/samlmetadata+xml' } })
      }),
      endProviderSignIn: createAuthEndpoint(
        providerLogout,
        { method: 'POST', body: logoutBody },
        async (ctx) => {
          await told(() => endBackChannel(context, ctx.body.organization, ctx.body.token))
          return ctx.json({})
        },
      ),
    },
  } satisfies BetterAuthPlugin
}

/** Opens the session of whoever the answer names. */
async function finish(
  context: Context,
  ctx: GenericEndpointContext,
  organizationId: string,
  answer: URLSearchParams,
): Promise<{ readonly place: string; readonly organization_id: string }> {
  const { name, attributes } = ctx.context.createAuthCookie(stateCookie)
  const cookie = (await ctx.getSignedCookie(name, ctx.context.secret)) || null
  ctx.setCookie(name, '', { ...attributes, maxAge: 0 })
  const person = provenPerson(await getSessionFromCtx(ctx, { disableRefresh: true }))
  const entered = await told(() => finishProviderSignIn(context, { organizationId, answer, cookie, person }))
  const { internalAdapter } = ctx.context
  const user = await internalAdapter.findUserById(entered.userId)
  if (user === null) throw new APIError('UNAUTHORIZED', { message: 'the account is gone' })
  const session = await internalAdapter.createSession(entered.userId, false, {
    openedWith: entered.openedWith,
    providerOrganization: entered.organizationId,
    providerSubject: entered.subject,
    providerSession: entered.session,
  })
  if (!(await stillHolds(context, entered))) {
    await internalAdapter.deleteSession(session.token)
    throw asApiError(ended())
  }
  await setSessionCookie(ctx, { session, user })
  return { place: entered.place, organization_id: entered.organizationId }
}

type Found = Awaited<ReturnType<typeof getSessionFromCtx>>

/** A session of a provider proves nothing outside of its organization, and one without the second factor too little. */
function provenPerson(found: Found): ProvenPerson | null {
  if (found === null) return null
  const { providerOrganization, openedWith } = found.session as Record<string, unknown>
  const isProven = found.user['twoFactorEnabled'] !== true || isWithFactor(openedWith)
  const isBound = typeof providerOrganization === 'string'
  return isProven && !isBound ? { userId: found.user.id, email: found.user.email } : null
}

/** In the format of the library’s errors. */
export async function told<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof DomainError ? asApiError(error) : error
  }
}

const asApiError = ({ code, message }: DomainError): APIError =>
  new APIError(statusOf[code], { code: code.toUpperCase(), message })
