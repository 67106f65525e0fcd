import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { access, accessOf, type RouteKey } from '../../src/api/access.ts'
import { openApiDocument } from '../../src/api/openapi.ts'
import { routes } from '../../src/api/routes/index.ts'
import { startTestServer, type TestServer } from './server.ts'

interface Operation {
  security: unknown[]
  'x-scope'?: string
  requestBody?: { content: { 'application/json': { schema: unknown } } }
  responses: Record<string, unknown>
}
const document = openApiDocument(routes) as { paths: Record<string, Record<string, Operation>> }
const committed = readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8')

describe('openapi.json', () => {
  test('as committed is what the code generates (npm run openapi)', () => {
    expect(JSON.parse(committed)).toEqual(JSON.parse(JSON.stringify(document)))
  })

  test('holds every route of the access table and nothing else', () => {
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
      if (!entry.public) expect(operation?.['x-scope']).toBe(entry.scope)
    }
  })

  test('gives every operation a name of its own and every body a schema', () => {
    const text = JSON.stringify(document)
    const names = [...text.matchAll(/"operationId":"([^"]+)"/g)].map((match) => match[1])
    expect(new Set(names).size).toBe(routes.length)
    for (const route of routes.filter((each) => each.body !== undefined)) {
      const [method = '', path = ''] = route.key.split(' ')
      expect(document.paths[path]?.[method.toLowerCase()]?.requestBody).toBeDefined()
    }
  })
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

  test('as a page holds every route, needs no script and fetches nothing', async () => {
    const answer = await server.call(null, 'GET', '/docs')
    expect(answer.headers.get('content-type')).toBe('text/html; charset=utf-8')
    for (const key of Object.keys(access)) expect(answer.text).toContain(`<code>${key}</code>`)
    expect(answer.text).not.toMatch(/<script|src=|https?:/)
  })

  test('does not exist with ENABLE_DOCS=false', async () => {
    for (const path of ['/openapi.json', '/docs', '/api/v1/docs'])
      expect((await silent.call(null, 'GET', path)).status).toBe(404)
  })
})
