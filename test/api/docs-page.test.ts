import { readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { readExamples } from '../../src/api/openapi.ts'
import { routes } from '../../src/api/routes/index.ts'
import { inBrowser, visit } from '../support/chromium.ts'
import { startTestServer, type TestServer } from './server.ts'

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

const get = (path: string, from = server) => fetch(`${from.base}${path}`)
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
      // The last section shows the request that a webhook gets.
      const operations = page.locator('.opblock')
      await operations.first().waitFor()
      expect(await operations.count()).toBe(routes.length + 1)
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
    const key = server.identities.users.admin.api_key
    await page.getByLabel('auth-bearer-value').fill(key)
    await page.locator('.modal-ux .authorize').first().click()
    await page.locator('.modal-ux .btn-done').first().click()
    const operation = page.locator('#operations-Identity-get_me')
    await operation.locator('.opblock-summary').click()
    await operation.locator('.try-out__btn').click()
    await operation.locator('.execute').click()
    await operation.locator('.live-responses-table').getByText('admin@').first().waitFor()
    expect(errors).toEqual([])
  })
})

describe('the examples in openapi.json', () => {
  const examples = Object.entries(readExamples())

  test('are there for at least twenty routes', () => {
    expect(examples.length).toBeGreaterThanOrEqual(20)
  })

  test.each(examples)('of %s fit its schemas', (key, { body, answers }) => {
    const route = routes.find((each) => each.key === key)
    if (route === undefined) throw new Error(`there is no route \`${key}\``)
    expect(body === undefined).toBe(route.body === undefined)
    expect(route.body?.safeParse(body).error).toBeUndefined()
    expect(Object.keys(answers)).not.toEqual([])
    for (const [status, answer] of Object.entries(answers))
      expect([status, route.responses[Number(status)]?.safeParse(answer)]).toEqual([
        status,
        expect.objectContaining({ success: true }),
      ])
  })
})
