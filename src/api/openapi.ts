import { OpenAPIRegistry, OpenApiGeneratorV31, zodToOpenAPIRegistry } from '@asteasolutions/zod-to-openapi'
import { z } from 'zod'
import { queryOf } from './query.ts'
import { statusOf } from './errors.ts'
import { acts, splitKey, type Route } from './route.ts'
import { sessionCookie } from './auth-options.ts'
import { calledSchemas, errorAnswer } from './schemas/common.ts'
import { webhookMessage } from './routes/webhooks.ts'
import { webhookEvents } from '../contract/webhook-events.ts'

const json = (schema: z.ZodType, example?: unknown) => ({
  'application/json': { schema, ...(example === undefined ? {} : { example }) },
})
const statusWords: Record<number, string> = {
  200: 'OK',
  201: 'Created',
  202: 'Accepted, but not finished',
  204: 'Done',
  503: 'The database cannot be reached',
}

const introduction = `Every path exists below \`/api/v1\`, below \`/v1\` and without a prefix. A method that a path does not have is 404, like an unknown path.

Send \`Authorization: Bearer <API key>\` and JSON. Lists take \`limit\` and \`cursor\`, and answer \`{"data": [...], "next_cursor"}\`. A \`POST\` takes an \`Idempotency-Key\`: the same key and body get the first answer again. Each operation names its scope (\`x-scope\`), further scopes that it needs (\`x-further-scopes\`), and the lowest role that may call it (\`x-minimum-role\`).

Every error is \`{"error": {"code", "message", "details": [{"path", "message"}]}, "meta": {"request_id"}}\`.`

function tableOfErrors(): string {
  const statuses = Map.groupBy(Object.entries(statusOf), ([, status]) => status)
  const rows = [...statuses].map(
    ([status, codes]) => `| ${status} | ${codes.map(([code]) => `\`${code}\``).join(' ')} |`,
  )
  return ['| Status | Codes |', '| --- | --- |', ...rows].join('\n')
}

/** Generated from the schemas that validate requests. The same schemas always give the same document. */
export function openApiDocument(routes: readonly Route[]): object {
  const registry = new OpenAPIRegistry()
  for (const [name, description] of Object.entries(headerWords))
    registry.registerComponent('headers', name, {
      description,
      schema: headerTypes[name] ?? { type: 'integer' },
    })
  registry.registerComponent('securitySchemes', 'apiKey', {
    type: 'http',
    scheme: 'bearer',
    description: 'An API key, `csk_live_…`',
  })
  registry.registerComponent('securitySchemes', 'session', {
    type: 'apiKey',
    in: 'cookie',
    name: sessionCookie,
    description: `The cookie of a person who has signed in at \`/api/auth/sign-in/email\`; \`__Secure-${sessionCookie}\` where the public address is https. Changing requests also need \`Origin\` with the service’s own address. The session has every scope of the person’s role. If a request also has a Bearer key, the key is used.`,
  })
  for (const route of routes) addRoute(registry, route)
  addMessages(registry)
  const document = new OpenApiGeneratorV31([...namedComponents(), ...registry.definitions]).generateDocument({
    openapi: '3.1.0',
    info: {
      title: 'Countersign',
      version: '1',
      description: `${introduction}\n\n${tableOfErrors()}`,
    },
    servers: [{ url: '/api/v1' }],
  })
  tidy(document)
  return document
}

/**
 * Gives the schemas their names until the process ends. The generator defines a named schema in the form of its first
 * use, and some uses also allow null, which the definition must not. So these come first in the document.
 */
function namedComponents(): { type: 'schema'; schema: z.ZodType }[] {
  return [...calledSchemas].map(([refId, schema]) => {
    zodToOpenAPIRegistry.add(schema, { _internal: { refId } })
    return { type: 'schema', schema }
  })
}

function addRoute(registry: OpenAPIRegistry, route: Route): void {
  const { method, path } = splitKey(route.key)
  const { needs } = route
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as string)
  registry.registerPath({
    method: method.toLowerCase() as 'get',
    path,
    operationId: operationId(method, path),
    summary: route.summary,
    tags: [route.tag],
    ...(route.description === undefined ? {} : { description: route.description }),
    // Either an API key or a sign-in session is enough.
    security: needs === null ? [] : [{ apiKey: [] }, { session: [] }],
    ...(needs === null ? {} : { 'x-scope': needs.scope, 'x-minimum-role': needs.role }),
    ...(needs?.further === undefined ? {} : { 'x-further-scopes': needs.further }),
    request: {
      ...(names.length === 0
        ? {}
        : { params: z.object(Object.fromEntries(names.map((name) => [name, pathParam(name)]))) }),
      query: withDefaults(queryOf(route)),
      ...(route.body === undefined
        ? {}
        : {
            body: {
              content: contentOf(route, route.body),
              // A missing body counts as an empty object.
              required: !route.body.safeParse({}).success,
            },
          }),
      headers: z.object({
        ...(acts(route) ? { 'Idempotency-Key': idempotencyKey } : {}),
        ...sentHeaders,
      }),
    },
    responses: {
      ...successes(route),
      default: {
        description: 'Any error',
        headers: headersOf(...answerHeaders(route), 'Retry-After'),
        content: json(errorAnswer),
      },
    },
  })
}

function addMessages(registry: OpenAPIRegistry): void {
  const rows = Object.entries(webhookEvents).map(([event, when]) => `| \`${event}\` | ${when} |`)
  const header = (description: string) => z.string().meta({ description })
  registry.registerWebhook({
    method: 'post',
    path: 'message',
    summary: 'What a webhook gets for each event that it has chosen',
    description: ['| `type` | When |', '| --- | --- |', ...rows].join('\n'),
    tags: ['Webhooks'],
    request: {
      headers: z.object({
        'webhook-id': header('the same for each attempt at a message'),
        'webhook-timestamp': header('epoch seconds of this attempt'),
        'webhook-signature': header('`v1,` and the signature; several are separated by spaces'),
      }),
      body: { content: json(webhookMessage), required: true },
    },
    responses: { '2XX': { description: 'Received. Any other status means: send it again.' } },
  })
}

function contentOf(route: Route, body: z.ZodType) {
  return route.receive === undefined
    ? json(body, route.example?.body)
    : { 'multipart/form-data': { schema: body } }
}

function successes(route: Route) {
  return Object.fromEntries(
    Object.entries(route.responses).map(([status, schema]) => [
      status,
      {
        description: statusWords[Number(status)] ?? 'Answer',
        headers: headersOf(...answerHeaders(route), ...(route.headers ?? [])),
        ...(schema !== null ? { content: json(schema, route.example?.answers[Number(status)]) } : {}),
        ...(schema === null && route.contentType !== undefined
          ? { content: { [route.contentType]: { schema: z.string() } } }
          : {}),
      },
    ]),
  )
}

/** zod-to-openapi omits the default of a field with an explicit type, such as every number of a query. */
function withDefaults(query: z.ZodObject): z.ZodObject {
  const shape = Object.entries(query.shape).map(([name, field]) => [
    name,
    field instanceof z.ZodDefault ? field.meta({ default: field.def.defaultValue }) : field,
  ])
  return z.strictObject(Object.fromEntries(shape) as z.ZodRawShape)
}

const pathParam = (name: string): z.ZodType => (name === 'version' ? z.int().min(1) : z.string())

const idempotencyKey = z
  .string()
  .max(255)
  .optional()
  .meta({ description: 'the same key and body get the first answer again, for 24 hours' })
const sentHeaders = {
  'X-Request-Id': z
    .string()
    .optional()
    .meta({ description: 'your own id for the request, which the answer, errors and the log repeat' }),
}

const headerWords = {
  'X-Request-Id': 'the id of the request, as in errors and the log',
  'X-RateLimit-Limit': 'how many requests the window allows',
  'X-RateLimit-Remaining': 'how many requests are left in the window',
  'X-RateLimit-Reset': 'the end of the window, in epoch seconds',
  'Idempotent-Replayed': '`true` if this is the first answer to the same `Idempotency-Key` again',
  'X-Verifier-Key': 'the key that checks the signature of the checkpoint',
  'Retry-After': 'seconds after which the same request may succeed; only with 409, 429 and 503',
}
const headerTypes: Readonly<Record<string, { type: 'string'; enum?: string[] }>> = {
  'X-Request-Id': { type: 'string' },
  'X-Verifier-Key': { type: 'string' },
  'Idempotent-Replayed': { type: 'string', enum: ['true'] },
}
const counted = ['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'] as const

function answerHeaders(route: Route): readonly (keyof typeof headerWords)[] {
  return [
    'X-Request-Id',
    ...(route.needs === null ? [] : counted),
    ...(acts(route) ? (['Idempotent-Replayed'] as const) : []),
  ]
}

function headersOf(...names: readonly (keyof typeof headerWords)[]) {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

/** `get_workflows_id_versions` for `GET /workflows/{id}/versions` */
function operationId(method: string, path: string): string {
  return `${method.toLowerCase()}_${path.replaceAll(/[^a-z0-9_]+/gi, '_').replace(/^_|_$/g, '')}`
}

/**
 * Changes a generated document in place, so that generators of clients read it correctly:
 * - zod-to-openapi writes `allOf` for a named part that may be null or has its own description. But null never fits an
 *   `allOf`: this becomes `anyOf` with null, or a reference with a description.
 * - A default moves into the description. Generators treat a field with one as always present, as it is in answers. But
 *   a named part can also be in a body, where a client must be able to leave it out.
 */
function tidy(document: object): void {
  const { paths, components } = document as { paths?: object; components?: { schemas?: object } }
  for (const [name, { type }] of Object.entries(components?.schemas ?? {}) as [string, Rest][])
    if (Array.isArray(type))
      throw new Error(`\`${name}\` allows null: name it before the parts that contain it`)
  visit(components?.schemas)
  visit(paths, true)
}

interface Part {
  allOf?: readonly [{ readonly $ref: string }, Rest]
  anyOf?: readonly object[]
  $ref?: string
  description?: string | undefined
  default?: unknown
  properties?: Record<string, Part>
}
interface Rest {
  readonly type?: unknown
  readonly description?: string
  readonly default?: unknown
}

/** `paths` keep their defaults: there only query parameters have one, which no answer contains. */
function visit(value: unknown, keepsDefaults = false): void {
  if (typeof value !== 'object' || value === null) return
  const part = value as Part
  if (isReferenceWithMore(part)) split(part)
  if (!keepsDefaults) Object.values(part.properties ?? {}).forEach(tellDefault)
  // A value, and not a schema.
  for (const [name, each] of Object.entries(part)) if (name !== 'example') visit(each, keepsDefaults)
}

function isReferenceWithMore(part: Part): part is Part & Required<Pick<Part, 'allOf'>> {
  return Array.isArray(part.allOf) && part.allOf.length === 2 && '$ref' in part.allOf[0]
}

function split(part: Part & Required<Pick<Part, 'allOf'>>): void {
  const [reference, { type, description, default: value, ...unknown }] = part.allOf
  const others = Object.keys(unknown)
  if (others.length > 0)
    throw new Error(`${reference.$ref} is used with \`${others.join('`, `')}\`: name that part too`)
  delete (part as Part).allOf
  if (Array.isArray(type) && type.includes('null')) part.anyOf = [reference, { type: 'null' }]
  else part.$ref = reference.$ref
  if (description !== undefined) part.description = description
  if (value !== undefined) part.default = value
}

function tellDefault(property: Part): void {
  if (isReferenceWithMore(property)) split(property)
  if (!('default' in property)) return
  const words = `default: \`${JSON.stringify(property.default)}\``
  property.description = property.description === undefined ? words : `${property.description}; ${words}`
  delete property.default
}
