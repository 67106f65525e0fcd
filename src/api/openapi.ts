import { OpenAPIRegistry, OpenApiGeneratorV31 } from '@asteasolutions/zod-to-openapi'
import { z } from 'zod'
import { acts, accessOf, splitKey } from './access.ts'
import { queryOf } from './query.ts'
import type { Route } from './route.ts'
import { sessionCookie } from './auth-options.ts'
import { errorAnswer } from './schemas/common.ts'

const json = (schema: z.ZodType) => ({ 'application/json': { schema } })
const statusWords: Record<number, string> = {
  200: 'OK',
  201: 'Created',
  202: 'Accepted: not over yet',
  204: 'Done',
  503: 'The database is away',
}

/** The OpenAPI 3.1 document, generated from the very schemas that validate. Deterministic. */
export function openApiDocument(routes: readonly Route[]): object {
  const registry = new OpenAPIRegistry()
  registry.registerComponent('securitySchemes', 'apiKey', {
    type: 'http',
    scheme: 'bearer',
    description: 'An API key, `csk_live_…`',
  })
  registry.registerComponent('securitySchemes', 'session', {
    type: 'apiKey',
    in: 'cookie',
    name: sessionCookie,
    description: `The cookie of a person who has signed in at \`/api/auth/sign-in/email\`; \`__Secure-${sessionCookie}\` where the public address is https. What changes something also needs \`Origin\` with the service’s own address. It has every scope of the person’s role; a Bearer key always wins over it.`,
  })
  for (const route of routes) addRoute(registry, route)
  return new OpenApiGeneratorV31(registry.definitions).generateDocument({
    openapi: '3.1.0',
    info: {
      title: 'Countersign',
      version: '1',
      description:
        'Every path answers below `/api/v1`, below `/v1` and bare. A method that a path does not have is 404, like an unknown path.',
    },
    servers: [{ url: '/api/v1' }],
  })
}

function addRoute(registry: OpenAPIRegistry, route: Route): void {
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
    // Either of them alone.
    security: access.public ? [] : [{ apiKey: [] }, { session: [] }],
    ...(access.public ? {} : { 'x-scope': access.scope, 'x-minimum-role': access.role }),
    request: {
      ...(names.length === 0
        ? {}
        : { params: z.object(Object.fromEntries(names.map((name) => [name, z.string()]))) }),
      query: queryOf(route),
      ...(route.body === undefined ? {} : { body: { content: json(route.body) } }),
      ...(acts(route.key)
        ? { headers: z.object({ 'Idempotency-Key': z.string().max(255).optional() }) }
        : {}),
    },
    responses: { ...successes(route), default: { description: 'Any error', content: json(errorAnswer) } },
  })
}

function successes(route: Route) {
  return Object.fromEntries(
    Object.entries(route.responses).map(([status, schema]) => [
      status,
      {
        description: statusWords[Number(status)] ?? 'Answer',
        ...(schema !== null ? { content: json(schema) } : {}),
        ...(schema === null && route.contentType !== undefined
          ? { content: { [route.contentType]: { schema: z.string() } } }
          : {}),
      },
    ]),
  )
}

/** `get_workflows_id_versions`. */
function operationId(method: string, path: string): string {
  return `${method.toLowerCase()}_${path.replaceAll(/[^a-z0-9_]+/gi, '_').replace(/^_|_$/g, '')}`
}
