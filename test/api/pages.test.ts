import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { newId } from '../../src/contract/ids.ts'
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

/** Sends the request like a browser or program that follows no redirect. */
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
    for (const path of ['/api/v1', '/api/v1/', '/v1/console/', '/console/x', '/console/approvals/'])
      expect((await get(path)).status).toBe(404)
    for (const path of ['/', '/console/']) expect((await get(path, browser, server, 'POST')).status).toBe(404)
  })
})

describe('the page in place of the console', () => {
  test('loads nothing, runs nothing, and says that the console comes later', async () => {
    const id = newId('approval')
    for (const path of ['/console/', `/console/approvals/${id}`]) {
      const answer = await get(path)
      expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
      const policy = answer.headers.get('content-security-policy') ?? ''
      expect(policy).toContain("default-src 'none'")
      expect(policy).not.toContain('unsafe')
      expect(policy).not.toContain('script-src')
      expect(await answer.text()).not.toMatch(/<script|<link|<img|src=|style="|\son\w+="/)
    }
    expect(await (await get('/console/')).text()).toContain('There is no console yet')
    expect((await get('/console')).headers.get('location')).toBe('/console/')
  })

  test('shows how to decide the approval of a `console_url`', async () => {
    const id = newId('approval')
    const text = await (await get(`/console/approvals/${id}`)).text()
    expect(text).toContain(`https://sign.example/api/v1/approvals/${id}/approve`)
    expect(text).toContain('href="/docs"')
    expect(await (await get('/console/', browser, silent)).text()).not.toContain('href="/docs"')
  })

  test.each([
    'apr_1',
    'apr_%3Cscript%3E',
    `run_${'0'.repeat(26)}`,
    `apr_${'0'.repeat(26)}%0A`,
    `apr_${'0'.repeat(26)}'`,
  ])('does not exist for %s, and repeats nothing of it in HTML', async (id) => {
    const answer = await get(`/console/approvals/${id}`)
    expect([answer.status, answer.headers.get('content-type')]).toEqual([
      404,
      'application/json; charset=utf-8',
    ])
  })
})
