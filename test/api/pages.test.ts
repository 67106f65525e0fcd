import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { startTestServer, type TestServer } from './server.ts'

const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'

let server: TestServer
let silent: TestServer
beforeAll(async () => {
  server = await startTestServer({ env: { PUBLIC_URL: 'https://sign.example/' } })
  silent = await startTestServer({ env: { ENABLE_DOCS: 'false' } })
})
afterAll(async () => {
  await server.close()
  await silent.close()
})

/** Sends the request as a browser or program that follows no redirects. */
const get = (path: string, accept = browser, from = server, method = 'GET') =>
  fetch(`${from.base}${path}`, { method, headers: { accept }, redirect: 'manual' })

describe('the base address', () => {
  test.each([[browser], ['text/html'], ['TEXT/HTML;q=0.1, */*']])(
    'redirects clients that accept %s to the console',
    async (accept) => {
      for (const method of ['GET', 'HEAD']) {
        const answer = await get('/', accept, server, method)
        expect([answer.status, answer.headers.get('location')]).toEqual([302, '/console/'])
        expect(answer.headers.get('vary')).toBe('Accept')
      }
    },
  )

  test.each([['*/*'], ['application/json'], ['text/html;q=0, */*'], ['text/htmlx']])(
    'points clients that accept %s to the API',
    async (accept) => {
      const answer = await get('/', accept)
      expect(answer.status).toBe(200)
      expect(await answer.json()).toEqual({
        name: 'Countersign',
        api: '/api/v1',
        health: '/health',
        console: '/console/',
        docs: '/docs',
        openapi: '/openapi.json',
      })
      expect(await (await get('/', accept, silent)).json()).not.toHaveProperty('docs')
    },
  )

  test('answers only at the root, and only to reading', async () => {
    for (const path of ['/api/v1', '/api/v1/', '/v1/console/', '/console/x'])
      expect((await get(path)).status).toBe(404)
    for (const path of ['/', '/console/']) expect((await get(path, browser, server, 'POST')).status).toBe(404)
  })
})
