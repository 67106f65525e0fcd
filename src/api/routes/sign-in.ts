import { Resolver } from 'node:dns/promises'
import { z } from 'zod'
import { discover } from '../../governance/signin/oidc.ts'
import { asDomainErrors } from '../../governance/signin/enter.ts'
import { mostCertificates, requireValidCertificate } from '../../governance/signin/saml.ts'
import {
  acsUrl,
  entityId,
  logoutUri,
  proveDomain,
  readProvider,
  redirectUri,
  removeProvider,
  requireProvider,
  samlClientOf,
  saveProvider,
  scimUri,
  type ResolveTxt,
} from '../../governance/signin/provider.ts'
import {
  createScimToken,
  deleteScimToken,
  scimTokenDays,
  scimTokenRows,
} from '../../governance/signin/scim.ts'
import { nameField, textField } from '../../policy/text.ts'
import { readBytes } from '../body-bytes.ts'
import { providerLogout } from '../auth-guards.ts'
import { ApiError } from '../errors.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { mayBeHeld, unlessHeld, whenHeld } from '../held.ts'
import { objects } from '../objects.ts'
import { done, ok, tagged } from '../route.ts'
import { inTable } from '../subjects.ts'
import { called, id, named, role, time } from '../schemas/common.ts'
import { story } from '../schemas/example.ts'

const { route, publicRoute } = tagged('Sign-in')

const domainView = z.strictObject({
  domain: z.string(),
  proven_at: time.nullable().describe('null: people with such an address cannot use the provider yet'),
  proven_by: z.enum(['dns', 'operator']).nullable(),
  record: z
    .strictObject({ name: z.string(), value: z.string() })
    .describe('the TXT record that proves the domain'),
})

const joiningRole = z.enum(['viewer', 'member', 'admin'])
const groupRoles = z
  .record(z.string().min(1).max(500), role)
  .refine((map) => Object.keys(map).length <= 200, 'at most 200 groups can have a role')

const groupName = z.string().regex(/^[a-z][a-z0-9_-]{0,63}$/, 'must be the name of a group here')

const shape = {
  kind: z.enum(['oidc', 'saml']).default('oidc').describe('OpenID Connect, or SAML 2.0'),
  issuer: z
    .url()
    .max(500)
    .describe('exactly as the provider writes it, such as `https://login.acme.com`; with SAML its entity id'),
  client_id: nameField(300).optional().describe('with OpenID Connect'),
  sso_url: z
    .url()
    .max(1_000)
    .optional()
    .describe('with SAML: the address that takes requests (HTTP-Redirect)'),
  certificates: z
    .array(z.string().min(1).max(10_000))
    .max(mostCertificates)
    .optional()
    .describe('with SAML, in PEM: what signs answers. Name the new one beside the old one before a change'),
  groups_claim: nameField(100).nullable().default(null).describe('the claim that lists a person’s groups'),
  role_map: groupRoles
    .default({})
    .describe(
      'roles by groups of the provider. With one, every sign-in sets the role, and no group means none',
    ),
  group_map: z
    .record(z.string().min(1).max(500), groupName)
    .refine((map) => Object.keys(map).length <= 200, 'at most 200 groups can lead to a group')
    .default({})
    .describe('groups of the organization by groups of the provider. Every sign-in sets who is in them'),
  default_role: joiningRole
    .nullable()
    .default(null)
    .describe('of a person whose groups give none. null: only invited people and mapped groups may enter'),
  checks_factor: z
    .boolean()
    .default(false)
    .describe('the provider always asks for a second factor, also if it does not say so (`amr`)'),
}

const domains = z.array(z.string().min(1).max(253)).min(1, 'name at least one domain').max(50)

export const providerBody = named('SignInProviderRequest', {
  ...shape,
  client_secret: textField(2_000).optional().describe('never shown again. Needed for a new issuer or client'),
  domains: domains.describe('mail domains of the people; each counts once it is proven'),
})

const provider = called(
  'SignInProvider',
  z.strictObject({
    kind: z.enum(['oidc', 'saml']),
    issuer: z.string(),
    client_id: z.string().describe('with SAML our entity id'),
    sso_url: z.string().nullable(),
    certificates: z.array(z.string()),
    domains: z.array(domainView),
    groups_claim: z.string().nullable(),
    role_map: z.record(z.string(), role),
    group_map: z.record(z.string(), z.string()),
    default_role: role.nullable(),
    checks_factor: z.boolean(),
    updated_at: time,
  }),
)

const signIn = named('SignIn', {
  provider: provider.nullable(),
  redirect_uri: z.string().describe('register it at the provider'),
  acs_url: z.string().describe('with SAML: where the provider sends its answer'),
  metadata_url: z.string().describe('with SAML: our metadata; the address is our entity id'),
  backchannel_logout_uri: z
    .string()
    .describe('register it at the provider, so that a sign-out there ends sessions here'),
  scim_uri: z.string().describe('for the directory of the company (SCIM 2.0)'),
})

const trial = named('SignInTrial', {
  ok: z.boolean(),
  message: z.string().describe('what is wrong, and what to change'),
})

const oneDomain = inTable('domain', 'domain', 'sign_in_domains', 'domain')
const needs = { scope: 'organizations:*', role: 'owner', subject: 'organization' } as const

const exampleProvider = {
  kind: 'oidc' as const,
  sso_url: null,
  certificates: [],
  issuer: 'https://login.acme.com',
  client_id: 'countersign',
  domains: [
    {
      domain: 'acme.com',
      proven_at: '2026-11-30T09:00:00.000Z',
      proven_by: 'dns' as const,
      record: { name: '_countersign.acme.com', value: 'countersign-domain=hZc3yQ0b' },
    },
  ],
  groups_claim: 'groups',
  role_map: { finance: 'member' as const, 'it-admins': 'admin' as const },
  group_map: { finance: 'finance' },
  default_role: 'viewer' as const,
  checks_factor: false,
  updated_at: '2026-11-30T08:00:00.000Z',
}

export const signInRoutes = [
  route({
    key: 'GET /organizations/{id}/sign-in',
    needs,
    summary: 'The provider with which people sign in; `provider` is null without one',
    example: {
      answers: {
        200: {
          provider: exampleProvider,
          redirect_uri: `https://countersign.acme.com/console/sign-in/answer/${story.organization}`,
          scim_uri: 'https://countersign.acme.com/scim/v2',
          acs_url: `https://countersign.acme.com/console/sign-in/saml/${story.organization}`,
          metadata_url: `https://countersign.acme.com/api/auth/saml/${story.organization}/metadata`,
          backchannel_logout_uri: `https://countersign.acme.com/api/v1/organizations/${story.organization}/sign-in/logout`,
        },
      },
    },
    responses: { 200: signIn },
    handle: async ({ context, caller }) =>
      ok({
        provider: await readProvider(context.db, caller.organizationId),
        redirect_uri: redirectUri(context.config, caller.organizationId),
        scim_uri: scimUri(context.config),
        acs_url: acsUrl(context.config, caller.organizationId),
        metadata_url: entityId(context.config, caller.organizationId),
        backchannel_logout_uri: logoutUri(context.config, caller.organizationId),
      }),
  }),
  route({
    key: 'PUT /organizations/{id}/sign-in',
    needs,
    audit: ['sign_in.provider_saved', whenHeld],
    summary: 'Set the provider (OpenID Connect or SAML) with which people sign in',
    description:
      'Replaces all of it. A domain that stays keeps its proof. Another issuer or client ends the sessions of the former one.',
    body: providerBody,
    example: {
      body: {
        issuer: 'https://login.acme.com',
        client_id: 'countersign',
        client_secret: 'what the provider shows',
        domains: ['acme.com'],
        groups_claim: 'groups',
        role_map: { finance: 'member', 'it-admins': 'admin' },
        default_role: 'viewer',
      },
      answers: { 200: exampleProvider },
    },
    responses: { 200: provider, ...mayBeHeld },
    handle: async ({ context, caller, body }) => unlessHeld(await saveProvider(context, caller, body), ok),
  }),
  route({
    key: 'DELETE /organizations/{id}/sign-in',
    needs,
    audit: ['sign_in.provider_removed'],
    summary: 'Remove the provider; sessions that it opened end',
    responses: { 204: null },
    handle: ({ context, caller }) => done(removeProvider(context, caller)),
  }),
  route({
    key: 'POST /organizations/{id}/sign-in/test',
    needs,
    asks: true,
    waits: true,
    summary: 'Read the description of the provider, and say what is wrong',
    example: {
      answers: { 200: { ok: true, message: 'The provider answers, and its description is complete.' } },
    },
    responses: { 200: trial },
    async handle({ context, caller }) {
      const row = await requireProvider(context.db, caller.organizationId)
      try {
        if (row.kind === 'saml') {
          await asDomainErrors(async () => requireValidCertificate(samlClientOf(context.config, row)))
          return ok({ ok: true, message: 'A certificate is valid. Now sign in with the provider once.' })
        }
        await asDomainErrors(() => discover(context.outgoing, row.issuer))
        return ok({ ok: true, message: 'The provider answers, and its description is complete.' })
      } catch (error) {
        return ok({ ok: false, message: toldBy(error) })
      }
    },
  }),
  route({
    key: 'POST /organizations/{id}/sign-in/domains/{domain}/prove',
    needs,
    inner: [oneDomain],
    audit: ['sign_in.domain_proven'],
    waits: true,
    summary: 'Look for the TXT record that proves a domain',
    example: { answers: { 200: exampleProvider } },
    responses: { 200: provider },
    handle: async ({ context, services, caller, params, once }) => {
      const resolve = services.resolveTxt ?? resolveTxt
      return ok(await actOnce(once, () => proveDomain(context, caller, params.domain, resolve, once)))
    },
  }),
  publicRoute({
    key: 'POST /organizations/{id}/sign-in/logout',
    summary: 'Where the provider says that a person signed out (OpenID Connect Back-Channel Logout 1.0)',
    description: 'A form with `logout_token`, signed by the provider. Ends the sessions that it names.',
    responses: { 200: null },
    async open(_context, { auth }, request) {
      const body = await readBytes(request, { bytes: 16 * 1024, tooLarge })
      const token = new URLSearchParams(body.whole().toString()).get('logout_token') ?? ''
      // There it has the limit for each client address.
      const { answer } = await auth.post(request, providerLogout, {
        organization: request.params['id'],
        token,
      })
      if (!answer.ok) throw await notEnded(answer)
      return { status: 200, body: undefined }
    },
  }),
]

async function notEnded(answer: Response): Promise<ApiError> {
  const { message } = (await answer.json().catch(() => ({}))) as { message?: unknown }
  const said = typeof message === 'string' ? message : '`logout_token` cannot be read'
  const wait = Number(answer.headers.get('x-retry-after') ?? 1)
  if (answer.status === 429) return new ApiError('rate_limited', said, [], wait)
  return new ApiError(answer.status === 503 ? 'unavailable' : 'bad_request', said)
}

const tooLarge = (): ApiError => new ApiError('too_large', 'the form is larger than 16 kB')

function toldBy(error: unknown): string {
  if (error instanceof Error && error.name === 'DomainError') return error.message
  throw error
}

const resolveTxt: ResolveTxt = async (name) => {
  const resolver = new Resolver({ timeout: 3_000, tries: 2 })
  return textsOf(resolver, name)
}

/** Empty if the name or the record does not exist. */
export async function textsOf(resolver: Resolver, name: string): Promise<readonly string[]> {
  try {
    return (await resolver.resolveTxt(name)).map((parts) => parts.join(''))
  } catch (error) {
    const { code } = error as { code?: unknown }
    if (code === 'ENOTFOUND' || code === 'ENODATA') return []
    throw error
  }
}

/* Tokens with which a directory sends SCIM (src/api/scim). */

const scimToken = named('ScimToken', {
  id,
  organization_id: id,
  name: z.string(),
  created_by: id,
  created_by_email: z.string(),
  created_at: time,
  expires_at: time,
  last_used_at: time.nullable(),
})

export const scimTokenBody = named('ScimTokenRequest', {
  name: nameField(100),
  days: z
    .int()
    .min(1)
    .max(scimTokenDays.most)
    .default(scimTokenDays.usual)
    .describe('after so many days it ends'),
})

const newScimToken = scimToken
  .extend({ token: z.string().describe('shown only this once') })
  .meta({ id: 'NewScimToken' })

const scimTokens = objects({
  tag: 'Sign-in',
  all: '/organizations/{id}/scim-tokens',
  one: '/organizations/{id}/scim-tokens/{token}',
  subject: 'organization',
  reads: { scope: 'organizations:*', role: 'owner' },
  writes: { scope: 'organizations:*', role: 'owner' },
  shown: scimToken,
  from: scimTokenRows,
  governed: ['create'],
})

export const scimRoutes = [
  scimTokens.create({
    summary: 'Make a token with which the company’s directory adds and removes people (SCIM 2.0)',
    body: scimTokenBody,
    answer: newScimToken,
    audit: ['scim_token.created'],
    run: createScimToken,
  }),
  scimTokens.list({ summary: 'The organization’s SCIM tokens, newest first' }),
  scimTokens.remove({ summary: 'Delete a SCIM token', audit: ['scim_token.deleted'], run: deleteScimToken }),
]
