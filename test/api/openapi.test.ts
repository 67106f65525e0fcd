import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { access, accessOf, acts, type RouteKey } from '../../src/api/access.ts'
import { openApiDocument } from '../../src/api/openapi.ts'
import { routes } from '../../src/api/routes/index.ts'
import { startTestServer, type TestServer } from './server.ts'

interface Operation {
  security: unknown[]
  'x-scope'?: string
  'x-further-scopes'?: string[]
  requestBody?: { content: { 'application/json': { schema: unknown } } }
  responses: Record<string, unknown>
}
const document = openApiDocument(routes) as { paths: Record<string, Record<string, Operation>> }
const committed = readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8')

describe('openapi.json', () => {
  test('the committed file is what the code generates (npm run openapi)', () => {
    expect(JSON.parse(committed)).toEqual(JSON.parse(JSON.stringify(document)))
  })

  test('contains every route of the access table and nothing else', () => {
    const described = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    )
    expect(described.sort()).toEqual(Object.keys(access).sort())
  })

  test('says which operations need a key or a session, and which scope', () => {
    for (const key of Object.keys(access) as RouteKey[]) {
      const [method = '', path = ''] = key.split(' ')
      const operation = document.paths[path]?.[method.toLowerCase()]
      const entry = accessOf(key)
      expect(operation?.security).toEqual(entry.public ? [] : [{ apiKey: [] }, { session: [] }])
      if (entry.public) continue
      expect(operation?.['x-scope']).toBe(entry.scope)
      expect(operation?.['x-further-scopes']).toEqual(entry.further)
    }
  })

  test('gives every operation a unique name and every body a schema', () => {
    const text = JSON.stringify(document)
    const names = [...text.matchAll(/"operationId":"([^"]+)"/g)].map((match) => match[1])
    expect(new Set(names).size).toBe(routes.length)
    for (const route of routes.filter((each) => each.body !== undefined)) {
      const [method = '', path = ''] = route.key.split(' ')
      expect(document.paths[path]?.[method.toLowerCase()]?.requestBody).toBeDefined()
    }
  })
})

/** Every schema and every part of a schema, with the path to it. */
function* partsOf(value: unknown, place: string): Generator<[string, Record<string, unknown>]> {
  if (typeof value !== 'object' || value === null) return
  yield [place, value as Record<string, unknown>]
  for (const [name, each] of Object.entries(value))
    if (name !== 'example') yield* partsOf(each, `${place}/${name}`)
}

describe('generators of clients find', () => {
  const parts = [...partsOf(document, '')]
  const placesOf = (wrong: (part: Record<string, unknown>) => boolean): string[] =>
    parts.filter(([, part]) => wrong(part)).map(([place]) => place)

  test('what each object holds: without it they take it for an empty one', () => {
    const says = ['properties', 'additionalProperties']
    const isObject = ({ type }: Record<string, unknown>) => type === 'object'
    expect(placesOf((part) => isObject(part) && !says.some((word) => word in part))).toEqual([])
    expect(placesOf(isObject).length).toBeGreaterThan(100)
  })

  test('null only beside a named part, and no choice that contains everything', () => {
    expect(placesOf((part) => 'allOf' in part)).toEqual([])
    const choices = ({ anyOf, oneOf }: Record<string, unknown>) =>
      [anyOf, oneOf].flat() as (object | undefined)[]
    const isOpen = (choice?: object) => choice !== undefined && Object.keys(choice).length === 0
    expect(placesOf((part) => choices(part).some(isOpen))).toEqual([])
    const { schemas } = (
      document as unknown as { components: { schemas: Record<string, { type?: unknown }> } }
    ).components
    expect(Object.keys(schemas).filter((name) => Array.isArray(schemas[name]?.type))).toEqual([])
  })

  test('no default in a named part: they would demand the field in bodies', () => {
    const places = placesOf((part) => 'default' in part && 'type' in part)
    expect(
      places.filter((place) => !place.includes('/parameters/') && !place.endsWith('/properties')),
    ).toEqual([])
  })

  test('a name for each body, which is required unless an empty object will do', () => {
    for (const { key, body, receive } of routes) {
      if (body === undefined) continue
      const [method = '', path = ''] = key.split(' ')
      const described = document.paths[path]?.[method.toLowerCase()]?.requestBody
      expect([key, described]).toEqual([
        key,
        {
          required: !body.safeParse({}).success,
          content: {
            [receive === undefined ? 'application/json' : 'multipart/form-data']: expect.objectContaining({
              schema: { $ref: expect.stringMatching(/^#\/components\/schemas\/\w+$/) },
            }),
          },
        },
      ])
    }
  })

  test('the headers of requests and answers', () => {
    for (const route of routes) {
      const [method = '', path = ''] = route.key.split(' ')
      const operation = document.paths[path]?.[method.toLowerCase()] as unknown as Headed
      const sent = operation.parameters.filter((each) => each.in === 'header').map(({ name }) => name)
      expect([route.key, sent]).toEqual([
        route.key,
        acts(route.key) ? ['Idempotency-Key', 'X-Request-Id'] : ['X-Request-Id'],
      ])
      for (const { headers } of Object.values(operation.responses)) {
        expect(headers).toHaveProperty('X-Request-Id')
        expect([route.key, 'Idempotent-Replayed' in headers]).toEqual([route.key, acts(route.key)])
      }
      expect(operation.responses['default']?.headers).toHaveProperty('Retry-After')
    }
  })
})

interface Headed {
  parameters: { in: string; name: string }[]
  responses: Record<string, { headers: object }>
}

test('request bodies are declared in src/api/schemas, and no route has one of its own', async () => {
  const folder = new URL('../../src/api/schemas/', import.meta.url)
  const modules = await Promise.all(readdirSync(folder).map((name) => import(new URL(name, folder).href)))
  const { ruleBodies } = await import('../../src/api/schemas/rules.ts')
  const declared = new Set([...modules, ...Object.values(ruleBodies)].flatMap(Object.values<unknown>))
  for (const { key, body } of routes.filter((route) => route.body !== undefined))
    expect([key, declared.has(body)]).toEqual([key, true])
})

describe('the description', () => {
  let server: TestServer
  let silent: TestServer
  beforeAll(async () => {
    server = await startTestServer()
    silent = await startTestServer({ env: { ENABLE_DOCS: 'false' } })
  })
  afterAll(async () => {
    await server.close()
    await silent.close()
  })

  test('is served without a key, at every prefix', async () => {
    for (const prefix of ['', '/v1', '/api/v1']) {
      const answer = await server.call(null, 'GET', `${prefix}/openapi.json`)
      expect(answer.body).toEqual(JSON.parse(committed))
    }
  })

  test('does not exist with ENABLE_DOCS=false', async () => {
    for (const path of ['/openapi.json', '/docs', '/api/v1/docs'])
      expect((await silent.call(null, 'GET', path)).status).toBe(404)
  })
})
