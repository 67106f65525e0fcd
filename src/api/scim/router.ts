import express, { type NextFunction, type Request, type Response, type Router } from 'express'
import type { Context } from '../../governance/context.ts'
import { directoryOf } from '../../governance/signin/scim.ts'
import { countRequest } from '../dispatch.ts'
import { ApiError, statusOf, toApiError } from '../errors.ts'
import { routeLocal } from '../http-server.ts'
import { scimGroups } from './groups.ts'
import { listOf, mostListed, urn, type Handler, type On } from './kit.ts'
import { scimUsers } from './users.ts'

/*
 * SCIM 2.0 (RFC 7643, RFC 7644) for people and groups: what directories such as Okta and Entra ID send. Its paths, its
 * errors and its token are those of the standard, so it is no route of the API.
 */

export function scimRouter(context: Context): Router {
  const router = express.Router({ caseSensitive: true })
  const on: On = (method, path, handle) =>
    void router[method](path, async (request, response) => {
      response.locals[routeLocal] = `/scim/v2${path.replace(/:(\w+)/, '{$1}')}`
      await answer(context, handle, request, response)
    })
  on('get', '/ServiceProviderConfig', async () => ({ status: 200, body: providerConfig }))
  on('get', '/ResourceTypes', async () => ({ status: 200, body: listOf(resourceTypes, 2, 1) }))
  scimUsers(on, context)
  scimGroups(on, context)
  router.use((_request, _response, next) =>
    next(new ApiError('not_found', 'SCIM here has only `/Users` and `/Groups`')),
  )
  router.use((error: unknown, _request: Request, response: Response, next: NextFunction) => {
    const known = toApiError(error)
    if (known.code === 'internal' || response.headersSent) next(error)
    else sendError(response, known)
  })
  return router
}

async function answer(
  context: Context,
  handle: Handler,
  request: Request,
  response: Response,
): Promise<void> {
  const directory = await directoryOf(context.db, request.headers.authorization)
  if (directory === null)
    throw new ApiError(
      'unauthenticated',
      'send a SCIM token of the organization as `Authorization: Bearer …`',
    )
  await countRequest(context, response, directory.charged, 'requests')
  const { status, body } = await handle(request, directory)
  send(response, status, body)
}

function send(response: Response, status: number, body?: object): void {
  response.status(status).setHeader('Content-Type', 'application/scim+json; charset=utf-8')
  response.end(body === undefined ? undefined : JSON.stringify(body))
}

const unique: ReadonlySet<string> = new Set(['userName', 'externalId', 'name'])

function sendError(response: Response, error: ApiError): void {
  // RFC 7644 knows no 422.
  const status = statusOf[error.code] === 422 ? 400 : statusOf[error.code]
  const isTaken = status === 409 && error.details.some(({ path }) => unique.has(path))
  const kind = isTaken ? 'uniqueness' : status === 400 ? 'invalidValue' : null
  if (error.retryAfter !== undefined) response.setHeader('Retry-After', String(error.retryAfter))
  send(response, status, {
    schemas: [`${urn}:api:messages:2.0:Error`],
    status: String(status),
    ...(kind === null ? {} : { scimType: kind }),
    detail: [error.message, ...error.details.map((each) => `${each.path}: ${each.message}`)].join('; '),
  })
}

const no = { supported: false }
const providerConfig = {
  schemas: [`${urn}:schemas:core:2.0:ServiceProviderConfig`],
  patch: { supported: true },
  bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
  filter: { supported: true, maxResults: mostListed },
  changePassword: no,
  sort: no,
  etag: no,
  authenticationSchemes: [
    { type: 'oauthbearertoken', name: 'Bearer token', description: 'a SCIM token of the organization' },
  ],
}
const resourceTypes = (['User', 'Group'] as const).map((name) => ({
  schemas: [`${urn}:schemas:core:2.0:ResourceType`],
  id: name,
  name,
  endpoint: `/${name}s`,
  schema: `${urn}:schemas:core:2.0:${name}`,
}))
