import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { OpenAPIRegistry, OpenApiGeneratorV31 } from '@asteasolutions/zod-to-openapi'
import { z } from 'zod'
import { acts, accessOf, splitKey } from './access.ts'
import { namedComponents } from './component-names.ts'
import { tidy } from './openapi-tidy.ts'
import { queryOf } from './query.ts'
import { statusOf } from './errors.ts'
import type { Route } from './route.ts'
import { sessionCookie } from './auth-options.ts'
import { errorAnswer } from './schemas/common.ts'
import { webhookMessage } from './schemas/webhooks.ts'
import { webhookEvents } from '../contract/webhook-events.ts'
import { projectRoot } from '../shared/project-root.ts'

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

/** The example of a route. It has the body of a request, and for each status the body of an answer. */
export interface Example {
  readonly body?: unknown
  readonly answers: Readonly<Record<string, unknown>>
}

/**
 * Reads the examples. The result maps the key of a route to its example. Only the routes that people use first have
 * one.
 */
export function readExamples(): Readonly<Record<string, Example>> {
  return JSON.parse(readFileSync(join(projectRoot(), 'docs', 'openapi-examples.json'), 'utf8'))
}

const introduction = `Every path exists below \`/api/v1\`, below \`/v1\` and without a prefix. A method that a path does not have is 404, like an unknown path.

Send \`Authorization: Bearer <API key>\` and JSON. Lists take \`limit\` and \`cursor\`, and answer \`{"data": [...], "next_cursor"}\`. A \`POST\` takes an \`Idempotency-Key\`: the same key and body get the first answer again. Each operation names its scope (\`x-scope\`), further scopes that it needs (\`x-further-scopes\`), and the lowest role that may call it (\`x-minimum-role\`).

Every error is \`{"error": {"code", "message", "details": [{"path", "message"}]}, "meta": {"request_id"}}\`.`

/** Returns a Markdown table with the error codes of each status. */
function tableOfErrors(): string {
  const statuses = Map.groupBy(Object.entries(statusOf), ([, status]) => status)
  const rows = [...statuses].map(
    ([status, codes]) => `| ${status} | ${codes.map(([code]) => `\`${code}\``).join(' ')} |`,
  )
  return ['| Status | Codes |', '| --- | --- |', ...rows].join('\n')
}

/**
 * Returns the OpenAPI 3.1 document. The document is generated from the schemas that validate requests. The same schemas
 * always give the same document.
 */
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
  const examples = readExamples()
  for (const route of routes) addRoute(registry, route, examples[route.key])
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

function addRoute(registry: OpenAPIRegistry, route: Route, example: Example | undefined): void {
  const { method, path } = splitKey(route.key)
  const access = accessOf(route.key)
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as string)
  registry.registerPath({
    method: method.toLowerCase() as 'get',
    path,
    operationId: operationId(method, path),
    summary: route.summary,
    tags: [route.tag],
    ...(route.description === undefined ? {} : { description: route.description }),
    // Either an API key or a sign-in session is enough.
    security: access.public ? [] : [{ apiKey: [] }, { session: [] }],
    ...(access.public ? {} : { 'x-scope': access.scope, 'x-minimum-role': access.role }),
    ...(access.public || access.further === undefined ? {} : { 'x-further-scopes': access.further }),
    request: {
      ...(names.length === 0
        ? {}
        : { params: z.object(Object.fromEntries(names.map((name) => [name, pathParam(name)]))) }),
      query: withDefaults(queryOf(route)),
      ...(route.body === undefined
        ? {}
        : {
            body: {
              content: contentOf(route, route.body, example),
              // A missing body counts as an empty object. So a body is required only if an empty object is not valid.
              required: !route.body.safeParse({}).success,
            },
          }),
      headers: z.object({
        ...(acts(route.key) ? { 'Idempotency-Key': idempotencyKey } : {}),
        ...sentHeaders,
      }),
    },
    responses: {
      ...successes(route, example),
      default: {
        description: 'Any error',
        headers: headersOf(...answerHeaders(route), 'Retry-After'),
        content: json(errorAnswer),
      },
    },
  })
}

/** Adds the requests that this service sends to webhooks. */
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

function contentOf(route: Route, body: z.ZodType, example: Example | undefined) {
  return route.receive === undefined ? json(body, example?.body) : { 'multipart/form-data': { schema: body } }
}

function successes(route: Route, example: Example | undefined) {
  return Object.fromEntries(
    Object.entries(route.responses).map(([status, schema]) => [
      status,
      {
        description: statusWords[Number(status)] ?? 'Answer',
        headers: headersOf(...answerHeaders(route), ...(route.headers ?? [])),
        ...(schema !== null ? { content: json(schema, example?.answers[status]) } : {}),
        ...(schema === null && route.contentType !== undefined
          ? { content: { [route.contentType]: { schema: z.string() } } }
          : {}),
      },
    ]),
  )
}

/**
 * Adds the defaults of the fields. zod-to-openapi omits the default of a field with an explicit type, such as every
 * number of a query.
 */
function withDefaults(query: z.ZodObject): z.ZodObject {
  const shape = Object.entries(query.shape).map(([name, field]) => [
    name,
    field instanceof z.ZodDefault ? field.meta({ default: field.def.defaultValue }) : field,
  ])
  return z.strictObject(Object.fromEntries(shape) as z.ZodRawShape)
}

/** The path parameter `{version}` is a number. Every other path parameter is a text. */
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

/** The headers that every answer of the route can have. */
function answerHeaders({ key }: Route): readonly (keyof typeof headerWords)[] {
  return [
    'X-Request-Id',
    ...(accessOf(key).public ? [] : counted),
    ...(acts(key) ? (['Idempotent-Replayed'] as const) : []),
  ]
}

function headersOf(...names: readonly (keyof typeof headerWords)[]) {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

/** Returns the id of an operation. Example: `GET /workflows/{id}/versions` has the id `get_workflows_id_versions`. */
function operationId(method: string, path: string): string {
  return `${method.toLowerCase()}_${path.replaceAll(/[^a-z0-9_]+/gi, '_').replace(/^_|_$/g, '')}`
}
