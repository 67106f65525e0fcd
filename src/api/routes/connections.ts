import { createHash } from 'node:crypto'
import type { Request, Response } from 'express'
import { z } from 'zod'
import { finishAuthorization } from '../../governance/connections/authorize.ts'
import type { ApiError } from '../errors.ts'
import { tagged, accepted, created, ok } from '../route.ts'
import { objects } from '../objects.ts'
import { beginAuthorization } from '../../governance/connections/authorize.ts'
import {
  connect,
  connectionRows,
  renameConnection,
  revokeConnection,
  services,
} from '../../governance/connections/connections.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { organizationQuery } from '../query.ts'
import { called, id, time, named } from '../schemas/common.ts'
import { integrationNames } from '../../tools/index.ts'
import { knownTool } from './tools.ts'
import { connectionPath } from '../../contract/pages.ts'
import { nameField } from '../../policy/text.ts'

const { streamRoute, route } = tagged('Connections')

const path = '/connections/callback/{integration}'

/** A browser at the callback address gets an error as a page, and not as JSON. */
export const showsPage = (request: Request, route: unknown): boolean =>
  route === path && request.accepts(['json', 'html']) === 'html'

export function refusalPage(error: ApiError): string {
  const words =
    error.code === 'unauthenticated'
      ? '<p>You are not signed in to Countersign in this browser. <a href="/console/sign-in">Sign in</a> as the person who began, ' +
        'and then load this page again.</p>'
      : `<p>${escape(error.message)}</p>`
  return htmlPage('The service is not connected', words)
}

/** The server may add other parameters, which are ignored. */
const text = z.string().max(8192).optional()
const answer = z.looseObject({
  state: text,
  code: text.describe('Exchanged for the tokens of the connection.'),
  iss: text.describe('Must be the server that was asked.'),
  error: text.describe('Why there is no code.'),
})

const getCallback = streamRoute({
  key: `GET ${path}`,
  // Only the person who began the authorization can complete it, in the organization where it began.
  needs: { scope: 'tools:connect', role: 'member', subject: 'nothing' },
  audit: ['connection.created'],
  summary: 'Where an authorization server sends the browser back to',
  description:
    'Ends what `POST /tools/{name}/connect` began without a credential, for the same person only and once. The answer is a page for this person.',
  contentType: 'text/html',
  query: answer,
  responses: { 200: null },
  async stream({ context, caller, params, query, signal }, _request, response) {
    const given = new URLSearchParams()
    for (const [name, value] of Object.entries(query)) if (typeof value === 'string') given.set(name, value)
    const finished = await finishAuthorization(context, caller, params.integration, given, signal)
    const page =
      finished.kind === 'connected'
        ? htmlPage(
            `${finished.title} is connected`,
            `<p>The connection <code>${escape(finished.connection.name)}</code> is ready. Its calls go to <code>${escape(finished.connection.destination)}</code>. <a href="${connectionPath(finished.connection.id)}">Go to the connection</a></p>`,
          )
        : htmlPage(
            `${finished.title} is not connected`,
            `<p>The authorization was refused (<code>${escape(finished.code)}</code>). To try again, begin again.</p>`,
          )
    sendPage(response, page)
  },
})

const style = `body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h2{margin-top:2rem}a{color:#0550ae}code,pre{font:14px/1.5 ui-monospace,monospace}pre{background:#f3f4f6;padding:.75rem 1rem;overflow-x:auto}
table{border-collapse:collapse;margin:.5rem 0}th,td{text-align:left;padding:.25rem 1rem .25rem 0;border-bottom:1px solid #ddd;vertical-align:top}`

/** Allows only this style sheet: no scripts, frames and other sites. */
const policy = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** `body` is HTML. Every value from outside must have passed through `escape`. */
function htmlPage(title: string, body: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${escape(title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>${style}</style></head><body>
<h1>${escape(title)}</h1>
${body}
</body></html>
`
}

export function sendPage(response: Response, html: string): void {
  response.setHeader('Content-Type', 'text/html; charset=utf-8')
  response.setHeader('Content-Security-Policy', policy)
  response.end(html)
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escape(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => entities[character] as string)
}

const name = nameField(200).transform((text) => text.trim())

export const integration = called('Integration', z.enum(integrationNames))
export const connectionScope = called('ConnectionScope', z.enum(['personal', 'organization']))

export const connectBody = named('ConnectRequest', {
  credential: z
    .record(z.string(), z.unknown())
    .optional()
    .describe(
      'What the service needs, in the form of its integration (docs/connections.md). It is never shown again. Absent: you authorize the connection in a browser.',
    ),
  // Only an admin can choose `organization`.
  scope: connectionScope,
  name: name.optional().describe('Default: the service, and the account that it names.'),
})

export const connectionChanges = named('ConnectionChanges', { name })

const connection = named('Connection', {
  id,
  organization_id: id,
  integration,
  scope: connectionScope,
  owner_id: id.nullable().describe('The person of a personal connection.'),
  owner_email: z.string().nullable(),
  name: z.string(),
  account: z.string().nullable().describe('As the service names it; null if it does not say.'),
  destination: z.string().describe('The host to which calls go, with the port if it is not the default.'),
  own_host: z
    .boolean()
    .describe('Whether this host is the service’s own, or one that the operator has set for the service.'),
  created_at: time,
  last_used_at: time.nullable(),
  status: z
    .enum(['active', 'expired', 'revoked'])
    .describe('`expired`: the service no longer accepts the credential; connect again.'),
  lacking_tools: z
    .array(z.string())
    .describe('Tools that fail, because the account did not grant their rights. Only Google says this.'),
})

const service = named('Service', {
  name: integration,
  title: z.string(),
  tools: z.array(z.string()).describe('The tools that one connection serves.'),
  credential: z
    .record(z.string(), z.unknown())
    .describe('JSON Schema of the credential. Fields with `writeOnly` are secrets.'),
  browser: z.boolean().describe('Whether it is connected without a credential too, in a browser.'),
  stand_in: z
    .string()
    .nullable()
    .describe(
      'Only in development: a stand-in on the machine of the service, which takes the token `stand-in`.',
    ),
})

const begun = named('BegunAuthorization', {
  authorization_url: z.string().describe('Open it in a browser where you are signed in to this service.'),
  expires_at: time,
})

const connections = objects({
  tag: 'Connections',
  all: '/connections',
  one: '/connections/{id}',
  subject: 'connection',
  reads: { scope: 'tools:read', role: 'viewer' },
  writes: { scope: 'tools:connect', role: 'member' },
  shown: connection,
  from: connectionRows,
})

export const connectionRoutes = [
  route({
    key: 'POST /tools/{name}/connect',
    // `connect`, `renameConnection` and `revokeConnection` check that only admins change the organization's.
    needs: { scope: 'tools:connect', role: 'member', subject: 'own' },
    inner: [knownTool],
    audit: ['connection.created', 'connection.authorization_begun'],
    summary: 'Connect a tool, and with it all tools of the same service',
    description:
      'The credential is checked with a harmless call to the service, where it has one. It replaces the connection of the same scope. `personal` serves your own runs; `organization` serves all runs and needs an admin. So does an address that is not the service’s own, and the operator must name its host (`CONNECTION_HOSTS`). Without `credential`, the answer is 202 with the address at which you authorize the connection in your browser, signed in as the same person (Google).',
    query: organizationQuery,
    body: connectBody,
    responses: { 201: connection, 202: begun },
    // For the external service, before it saves anything.
    waits: true,
    async handle({ context, caller, params, body, signal, once }) {
      const { credential, ...rest } = body
      const input = { tool: params.name, scope: rest.scope, name: rest.name }
      if (credential === undefined)
        return accepted(await actOnce(once, () => beginAuthorization(context, caller, input, once)))
      const whole = { ...input, credential }
      return created(await actOnce(once, () => connect(context, caller, whole, signal, once)))
    },
  }),
  getCallback,
  route({
    key: 'GET /services',
    needs: { scope: 'tools:read', role: 'viewer', subject: 'nothing' },
    summary: 'The services that people connect, and what each needs',
    responses: { 200: z.strictObject({ data: z.array(service) }) },
    handle: ({ context }) => Promise.resolve(ok({ data: services(context.config) })),
  }),
  connections.read({
    summary: 'A connection of the organization or your own; an admin sees those of all members',
  }),
  connections.list({
    summary: 'The connections of the organization and your own; an admin sees those of all members',
  }),
  connections.change({
    summary: 'Rename a connection of yours, or as an admin one of the organization',
    body: connectionChanges,
    audit: ['connection.renamed'],
    run: renameConnection,
  }),
  connections.remove({
    summary: 'Revoke a connection: no call uses it from now on, and its credential is deleted',
    audit: ['connection.revoked'],
    // After the revocation, for the external service.
    waits: true,
    run: revokeConnection,
  }),
]
