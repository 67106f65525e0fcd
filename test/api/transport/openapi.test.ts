import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { acts, isGuarded, splitKey } from '../../../src/api/route.ts'
import { openApiDocument } from '../../../src/api/openapi.ts'
import { routes } from '../../../src/api/routes/index.ts'
import type { Example } from '../../../src/api/schemas/example.ts'
import { hasRole, scopes } from '../../../src/governance/access/scopes.ts'
import { inBrowser, visit } from '../../support/chromium.ts'
import { startBeside, type TestServer } from '../server.ts'
import { useServer } from '../use-server.ts'

let server: TestServer
/** A process that shows no documents. */
let silent: TestServer
const { as, keyOf } = useServer(
  async (started) => {
    server = started
    silent = await startBeside(server, { http: { ...server.context.config.http, docs: false } })
  },
  { PUBLIC_URL: 'https://sign.example/' },
)
afterAll(() => silent?.close())

interface Operation {
  security: unknown[]
  'x-scope'?: string
  'x-further-scopes'?: string[]
  requestBody?: unknown
  parameters: { in: string; name: string }[]
  responses: Record<string, { headers: object }>
}
const document = openApiDocument(routes) as { paths: Record<string, Record<string, Operation>> }
const operationOf = (key: string): Operation | undefined => {
  const [method = '', path = ''] = key.split(' ')
  return document.paths[path]?.[method.toLowerCase()]
}
const committed = readFileSync(new URL('../../../docs/openapi.json', import.meta.url), 'utf8')

describe('openapi.json', () => {
  test('the committed file is what the code generates (npm run openapi)', () => {
    expect(JSON.parse(committed)).toEqual(JSON.parse(JSON.stringify(document)))
  })

  test('contains every route and nothing else', () => {
    const described = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    )
    expect(described.sort()).toEqual(routes.map(({ key }) => key).sort())
  })

  test('says which operations need a key or a session, and which scope', () => {
    for (const { key, needs } of routes) {
      const operation = operationOf(key)
      expect(operation?.security).toEqual(needs === null ? [] : [{ apiKey: [] }, { session: [] }])
      if (needs === null) continue
      expect(operation?.['x-scope']).toBe(needs.scope)
      expect(operation?.['x-further-scopes']).toEqual(needs.further)
    }
  })

  test('gives every operation a unique name', () => {
    const names = [...committed.matchAll(/"operationId": ?"([^"]+)"/g)].map((match) => match[1])
    expect(new Set(names).size).toBe(routes.length)
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
      expect([key, operationOf(key)?.requestBody]).toEqual([
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
      const { key } = route
      const operation = operationOf(key) as Operation
      const sent = operation.parameters.filter((each) => each.in === 'header').map(({ name }) => name)
      expect([key, sent]).toEqual([key, [...(acts(route) ? ['Idempotency-Key'] : []), 'X-Request-Id']])
      for (const { headers } of Object.values(operation.responses)) {
        expect(headers).toHaveProperty('X-Request-Id')
        expect([key, 'Idempotent-Replayed' in headers]).toEqual([key, acts(route)])
      }
      expect(operation.responses['default']?.headers).toHaveProperty('Retry-After')
    }
  })
})

test('no request body is declared inside a route', () => {
  const folder = new URL('../../../src/api/routes/', import.meta.url)
  for (const name of readdirSync(folder))
    expect([name, readFileSync(new URL(name, folder), 'utf8')]).toEqual([
      name,
      expect.not.stringMatching(/\bbody: (?:z\.(?:strictO|o)bject|named)\(/),
    ])
})

describe('the description', () => {
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

/** Sends the request as a browser or program that follows no redirects. */
const get = (path: string, from = server, accept = '*/*', method = 'GET') =>
  fetch(`${from.base}${path}`, { method, headers: { accept }, redirect: 'manual' })
const filesOf = (html: string): string[] =>
  [...html.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, path = '']) => path)

describe('the docs page', () => {
  test('allows scripts and styles of this service alone, and nothing inline except its own', async () => {
    for (const prefix of ['', '/v1', '/api/v1']) {
      const answer = await get(`${prefix}/docs`)
      expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
      const policy = answer.headers.get('content-security-policy') ?? ''
      expect(policy.split('; ')).toEqual([
        "default-src 'none'",
        expect.stringMatching(/^script-src 'self' 'sha256-[\w+/]+=*'$/),
        expect.stringMatching(/^style-src 'self' 'sha256-[\w+/]+=*'$/),
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
      ])
    }
  })

  test('serves the viewer’s two files, which browsers may cache, and no other file of the package', async () => {
    const files = filesOf(await (await get('/docs')).text())
    expect(files).toHaveLength(2)
    for (const file of files) {
      const answer = await get(file)
      expect(answer.status).toBe(200)
      expect(answer.headers.get('content-type')).toBe(
        file.endsWith('.css') ? 'text/css; charset=utf-8' : 'text/javascript; charset=utf-8',
      )
      expect(answer.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
      await answer.bytes()
      expect((await get(file, silent)).status).toBe(404)
    }
    const folder = dirname(files[0] ?? '')
    const inPackage = readdirSync(dirname(createRequire(import.meta.url).resolve('swagger-ui-dist')))
    expect(inPackage.length).toBeGreaterThan(10)
    for (const name of [...inPackage, '../package.json'].filter(
      (each) => !files.includes(`${folder}/${each}`),
    ))
      expect([name, (await get(`${folder}/${encodeURIComponent(name)}`)).status]).toEqual([name, 404])
  })

  inBrowser.each([360, 1280])(
    'shows every route and its examples in a real browser of %d px, which asks no other host',
    async (width) => {
      const { page, foreign, errors } = await visit(`${server.base}/docs`, width)
      const sections = page.locator('.opblock-tag-section:has(.opblock-tag)')
      await sections.first().waitFor()
      // The request that a webhook gets is not folded.
      let shown = await page.locator('#operations-webhooks-postmessage').count()
      for (const section of await sections.all()) {
        const [header, operations] = [section.locator('.opblock-tag'), section.locator('.opblock')]
        await header.click()
        await operations.first().waitFor()
        shown += await operations.count()
        await header.click()
        await operations.first().waitFor({ state: 'detached' })
      }
      expect(shown).toBe(routes.length + 1)
      await page.locator('#operations-tag-Approvals').click()
      const operation = page.locator('#operations-Approvals-post_approvals_id_approve')
      await operation.locator('.opblock-summary').click()
      await operation.getByText('"fine"').first().waitFor()
      expect(await operation.getByText('approvals:decide').count()).toBe(1)
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
      expect({ foreign, errors }).toEqual({ foreign: [], errors: [] })
    },
  )

  inBrowser('sends a request with the key that its reader gives', async () => {
    const { page, errors } = await visit(`${server.base}/docs`, 1280)
    await page.locator('.auth-wrapper .authorize').first().click()
    await page.getByLabel('auth-bearer-value').fill(keyOf('admin'))
    await page.locator('.modal-ux .authorize').first().click()
    await page.locator('.modal-ux .btn-done').first().click()
    await page.locator('#operations-tag-Identity').click()
    const operation = page.locator('#operations-Identity-get_me')
    await operation.locator('.opblock-summary').click()
    await operation.locator('.try-out__btn').click()
    await operation.locator('.execute').click()
    await operation.locator('.live-responses-table').getByText('admin@').first().waitFor()
    expect(errors).toEqual([])
  })
})

describe('the examples in openapi.json', () => {
  const examples = routes.filter(({ example }) => example !== undefined)

  test('are there for at least twenty routes', () => {
    expect(examples.length).toBeGreaterThanOrEqual(20)
  })

  test.each(examples)('of $key fit its schemas', ({ example, body: schema, responses }) => {
    const { body, answers } = example as Example
    expect(body === undefined).toBe(schema === undefined)
    expect(schema?.safeParse(body).error).toBeUndefined()
    expect(Object.keys(answers)).not.toEqual([])
    for (const [status, answer] of Object.entries(answers))
      expect([status, responses[Number(status)]?.safeParse(answer)]).toEqual([
        status,
        expect.objectContaining({ success: true }),
      ])
  })
})

describe('the base address', () => {
  const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'

  test.each([browser, 'text/html', 'TEXT/HTML;q=0.1, */*'])(
    'redirects clients that accept %s to the console',
    async (accept) => {
      for (const method of ['GET', 'HEAD']) {
        const answer = await get('/', server, accept, method)
        expect([answer.status, answer.headers.get('location')]).toEqual([302, '/console/'])
        expect(answer.headers.get('vary')).toBe('Accept')
      }
    },
  )

  test.each(['*/*', 'application/json', 'text/html;q=0, */*', 'text/htmlx'])(
    'points clients that accept %s to the API',
    async (accept) => {
      const answer = await get('/', server, accept)
      expect(answer.status).toBe(200)
      expect(await answer.json()).toEqual({
        name: 'Countersign',
        api: '/api/v1',
        health: '/health',
        console: '/console/',
        docs: '/docs',
        openapi: '/openapi.json',
      })
      expect(await (await get('/', silent, accept)).json()).not.toHaveProperty('docs')
    },
  )

  test('answers only at the root, and only to reading', async () => {
    for (const path of ['/api/v1', '/api/v1/', '/v1/console/', '/console/x'])
      expect((await get(path, server, browser)).status).toBe(404)
    for (const path of ['/', '/console/']) expect((await get(path, server, browser, 'POST')).status).toBe(404)
  })
})

const guarded = routes.filter(isGuarded)

describe('scopes and roles', () => {
  test.each(Object.entries(scopes))('%s is useful from role %s on, as its routes say', (scope, minimum) => {
    const roles = guarded.filter(({ needs }) => needs.scope === scope).map(({ needs }) => needs.role)
    for (const role of roles) expect(hasRole(role, minimum)).toBe(true)
    if (roles.length > 0) expect(roles).toContain(minimum)
  })

  test('let an agent’s key only ask for decisions', async () => {
    const { agent_key } = server.identities
    for (const { key, needs } of guarded) {
      const { method, path } = splitKey(key)
      const target = path.replaceAll(/\{\w+\}/g, 'x')
      const answer = await server.call(agent_key, method, target, method === 'GET' ? undefined : {})
      const isRefused = answer.status === 403 && answer.body.error.code === 'missing_scope'
      expect([key, isRefused]).toEqual([key, needs.scope !== 'agents:authorize'])
    }
  })

  test('are the answer of GET /scopes', async () => {
    const answer = await as('viewer', 'GET', '/scopes')
    expect(answer.body.routes).toHaveLength(routes.length)
    expect(answer.body.routes).toContainEqual({
      method: 'PATCH',
      path: '/organizations/{id}/governance',
      public: false,
      scope: 'governance:write',
      further_scopes: [],
      minimum_role: 'owner',
    })
  })
})
