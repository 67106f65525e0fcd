import express, { type NextFunction, type Request, type Response, type Router } from 'express'
import { z } from 'zod'
import type { Context } from '../governance/context.ts'
import {
  addScimUser,
  changeScimUser,
  directoryOf,
  listScimUsers,
  readScimUser,
  removeScimUser,
  type Directory,
  type ScimUser,
  type UserFilter,
} from '../governance/signin/scim.ts'
import { nameField } from '../policy/text.ts'
import { publicBase } from '../shared/config.ts'
import { countRequest } from './dispatch.ts'
import { ApiError, statusOf, toApiError, validate } from './errors.ts'
import { routeLocal } from './http-server.ts'
import { readJsonBody } from './json-body.ts'

/*
 * SCIM 2.0 (RFC 7643, RFC 7644) for people: what directories such as Okta and Entra ID send. Its paths, its errors and
 * its token are those of the standard, so it is no route of the API.
 */

const urn = 'urn:ietf:params:scim'
const userSchema = `${urn}:schemas:core:2.0:User`
const mostListed = 100
const bodyLimit = 64 * 1024

const person = z.looseObject({
  userName: z.email().max(254),
  externalId: z.string().max(500).nullish(),
  active: z.boolean().optional(),
  displayName: nameField(200).nullish(),
  name: z
    .looseObject({
      formatted: z.string().max(200).nullish(),
      givenName: z.string().max(100).nullish(),
      familyName: z.string().max(100).nullish(),
    })
    .nullish(),
})

/** Entra ID writes operations in capitals, and truth values as text. */
const truth = z.union([
  z.boolean(),
  z.enum(['true', 'false', 'True', 'False']).transform((text) => text.toLowerCase() === 'true'),
])
const operation = z.looseObject({
  op: z.string().transform((text) => text.toLowerCase()),
  path: z.string().max(200).optional(),
  value: z.unknown(),
})
const patch = z.looseObject({ Operations: z.array(operation).max(100) })
const changes = z.looseObject({ active: truth.optional(), externalId: z.string().max(500).nullish() })

type Handler = (request: Request, directory: Directory) => Promise<{ status: number; body?: object }>

export function scimRouter(context: Context): Router {
  const router = express.Router({ caseSensitive: true })
  const { db } = context
  const on = (method: 'get' | 'post' | 'put' | 'patch' | 'delete', path: string, handle: Handler): void =>
    void router[method](path, async (request, response) => {
      response.locals[routeLocal] = `/scim/v2${path.replace(/:(\w+)/, '{$1}')}`
      await answer(context, handle, request, response)
    })
  const shown = (user: ScimUser, status = 200) => ({ status, body: viewOf(context, user) })

  on('get', '/ServiceProviderConfig', async () => ({ status: 200, body: providerConfig }))
  on('get', '/ResourceTypes', async () => ({ status: 200, body: listOf([resourceType], 1, 1) }))
  on('get', '/Users', async (request, { organizationId }) => {
    const query = new URLSearchParams(request.originalUrl.split('?', 2)[1] ?? '')
    const start = wholeOf(query.get('startIndex'), 1, 1_000_000)
    const limit = Math.min(wholeOf(query.get('count'), mostListed, 1_000_000), mostListed)
    const filter = filterOf(query.get('filter'))
    const { total, users } = await listScimUsers(db, organizationId, { filter, offset: start - 1, limit })
    const views = users.map((user) => viewOf(context, user))
    return { status: 200, body: listOf(views, total, start) }
  })
  on('post', '/Users', async (request, directory) => {
    const given = await bodyOf(request, person)
    const { active = true, externalId = null } = given
    const input = { ...given, name: nameOf(given), active, externalId: externalId ?? null }
    return shown(await addScimUser(context, directory, input), 201)
  })
  on('get', '/Users/:id', async (request, { organizationId }) =>
    shown(await readScimUser(db, organizationId, idOf(request))),
  )
  on('put', '/Users/:id', async (request, directory) => {
    const { userName, active, externalId = null } = await bodyOf(request, person)
    const before = await readScimUser(db, directory.organizationId, idOf(request))
    if (userName.toLowerCase() !== before.userName.toLowerCase())
      throw new ApiError('bad_request', 'the address of an account belongs to its person, and stays')
    const state = active === undefined ? {} : { active }
    return shown(await changeScimUser(context, directory, before.id, { ...state, externalId }))
  })
  on('patch', '/Users/:id', async (request, directory) => {
    const { Operations: operations } = await bodyOf(request, patch)
    return shown(await changeScimUser(context, directory, idOf(request), changesOf(operations)))
  })
  on('delete', '/Users/:id', async (request, directory) => {
    await removeScimUser(context, directory, idOf(request))
    return { status: 204 }
  })
  router.use((_request, _response, next) => next(new ApiError('not_found', 'SCIM here has only `/Users`')))
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

/** Directories understand `uniqueness` and `invalidFilter`. */
function sendError(response: Response, error: ApiError): void {
  // RFC 7644 knows no 422.
  const status = statusOf[error.code] === 422 ? 400 : statusOf[error.code]
  const kind = status === 409 ? 'uniqueness' : status === 400 ? 'invalidValue' : null
  if (error.retryAfter !== undefined) response.setHeader('Retry-After', String(error.retryAfter))
  send(response, status, {
    schemas: [`${urn}:api:messages:2.0:Error`],
    status: String(status),
    ...(kind === null ? {} : { scimType: kind }),
    detail: [error.message, ...error.details.map((each) => `${each.path}: ${each.message}`)].join('; '),
  })
}

/** Directories send `application/scim+json`, which is JSON. */
async function bodyOf<S extends z.ZodType>(request: Request, schema: S): Promise<z.output<S>> {
  if (/^application\/scim\+json\s*(;|$)/i.test(request.headers['content-type'] ?? ''))
    request.headers['content-type'] = 'application/json'
  return validate(schema, await readJsonBody(request, bodyLimit), 'the body') as z.output<S>
}

/** No id contains a NUL, which PostgreSQL cannot compare. */
const idOf = ({ params }: Request): string => String(params['id']).replaceAll('\u0000', '')

function nameOf({ displayName, name, userName }: z.output<typeof person>): string {
  const whole = [name?.givenName, name?.familyName].filter(Boolean).join(' ')
  const given = displayName ?? name?.formatted ?? whole
  const read = nameField(200).safeParse(given)
  return read.success ? read.data : (userName.split('@', 1)[0] as string)
}

function wholeOf(text: string | null, usual: number, most: number): number {
  const number = text === null || !/^\d{1,9}$/.test(text) ? usual : Number(text)
  return Math.min(Math.max(number, 1), most)
}

/** Directories look for a person by one of these, before they add them. */
function filterOf(text: string | null): UserFilter | null {
  if (text === null || text === '') return null
  const [, by, value] = /^\s*(userName|externalId|id)\s+eq\s+"((?:[^"\\]|\\.){0,500})"\s*$/i.exec(text) ?? []
  const known = (['userName', 'externalId', 'id'] as const).find(
    (name) => name.toLowerCase() === by?.toLowerCase(),
  )
  if (known === undefined || value === undefined)
    throw new ApiError('bad_request', 'this filter is not supported: use `userName eq "ana@acme.com"`')
  return { by: known, value: value.replaceAll(/\\(.)/g, '$1').replaceAll('\u0000', '') }
}

type Operation = z.output<typeof operation>

/** Only these attributes change here. Others, such as the name, belong to the person, and are left as they are. */
function changesOf(operations: readonly Operation[]): { active?: boolean; externalId?: string | null } {
  const found: { active?: boolean; externalId?: string | null } = {}
  for (const { op, path, value } of operations) {
    if (op !== 'add' && op !== 'replace' && op !== 'remove')
      throw new ApiError('bad_request', `the operation \`${op.slice(0, 20)}\` is not known`)
    const name = path === undefined ? null : nameOfPath(path)
    if (op === 'remove') {
      if (name === 'active') throw new ApiError('bad_request', '`active` cannot be removed: set it to false')
      if (name === 'externalId') found.externalId = null
      continue
    }
    const { active, externalId } = validate(
      changes,
      name === null ? named(value) : { [name]: value },
      'the operation',
    )
    if (active !== undefined) found.active = active
    if (externalId !== undefined) found.externalId = externalId
  }
  return found
}

/** SCIM ignores the case of names, and a path may begin with the schema. */
function nameOfPath(path: string): string {
  const given = path.toLowerCase()
  return ['active', 'externalId'].find((name) => [name, `${userSchema}:${name}`].some((each) => each.toLowerCase() === given)) ?? 'other' // prettier-ignore
}

const named = (value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).map(([name, each]) => [nameOfPath(name), each]))
    : value

function viewOf({ config }: Pick<Context, 'config'>, user: ScimUser): object {
  return {
    schemas: [userSchema],
    id: user.id,
    ...(user.externalId === null ? {} : { externalId: user.externalId }),
    userName: user.userName,
    displayName: user.name,
    active: user.active,
    emails: [{ value: user.userName, primary: true, type: 'work' }],
    meta: {
      resourceType: 'User',
      created: user.createdAt.toISOString(),
      location: `${publicBase(config)}/scim/v2/Users/${user.id}`,
    },
  }
}

const listOf = (resources: readonly object[], total: number, start: number): object => ({
  schemas: [`${urn}:api:messages:2.0:ListResponse`],
  totalResults: total,
  startIndex: start,
  itemsPerPage: resources.length,
  Resources: resources,
})

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
const resourceType = {
  schemas: [`${urn}:schemas:core:2.0:ResourceType`],
  id: 'User',
  name: 'User',
  endpoint: '/Users',
  schema: userSchema,
}
