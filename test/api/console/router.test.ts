import { request, type IncomingMessage } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Browser } from '../browser.ts'
import { startPages, type PagesHome } from './pages-home.ts'

/* Pages and forms of the console over HTTP, without a browser. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())

/** The pages of the sign-in, which need no session. */
const open = [
  '/console/sign-in',
  '/console/sign-in/code',
  '/console/sign-up',
  '/console/reset-password',
  `/console/reset-password?token=${'t'.repeat(24)}`,
  `/console/confirm-address?token=${'t'.repeat(24)}`,
  `/console/invitation?token=${'t'.repeat(24)}`,
  '/console/second-factor',
]

describe('a page', () => {
  test('loads only files of this service, runs nothing inline, and is not kept', async () => {
    const id = await home.held()
    for (const path of [
      '/console/approvals',
      `/console/approvals/${id}`,
      '/console/none',
      '/console/account',
      ...open,
    ]) {
      const answer = await home.get(path, path === '/console/sign-in' ? '' : undefined)
      expect(answer.headers.get('content-security-policy')?.split('; ')).toEqual([
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
      ])
      expect(answer.headers.get('cache-control')).toBe('no-store')
      expect(answer.headers.get('x-frame-options')).toBe('DENY')
      expect(answer.headers.get('referrer-policy')).toBe(
        open.includes(path) ? 'strict-origin' : 'same-origin',
      )
      const text = await answer.text()
      expect(text).not.toMatch(/<script(?![^>]* src=)|<style|style="|\son\w+="/)
    }
  })

  test('renews a session that was used for a day, but not by the looks of a page that is left open', async () => {
    const mine = new Browser(home.server)
    const { email, password, user_id: userId } = home.server.identities.users.owner
    await mine.signIn(email, password)
    const left = async () =>
      (
        await home.server.context.pool.query(
          `update auth_sessions set expires_at = expires_at where user_id = $1
           returning extract(epoch from expires_at - now()) / 86400 as days`,
          [userId],
        )
      ).rows[0].days as number
    const age = () =>
      home.server.context.pool.query(
        `update auth_sessions set expires_at = now() + interval '5 days', updated_at = now() - interval '2 days'
         where user_id = $1`,
        [userId],
      )
    await age()
    for (const [mode, renews] of [
      ['cors', false],
      ['navigate', true],
    ] as const) {
      // `fetch` of Node always sets `Sec-Fetch-Mode` itself.
      const answer = await new Promise<IncomingMessage>((resolve) =>
        request(
          `${home.server.base}/console/approvals`,
          { headers: { cookie: mine.cookie, 'sec-fetch-mode': mode } },
          resolve,
        ).end(),
      )
      answer.resume()
      const cookies = answer.headers['set-cookie'] ?? []
      expect(cookies.some((line) => line.includes('session_token'))).toBe(renews)
      expect((await left()) > 6).toBe(renews)
    }
  })

  test('refuses forms that are too large, and takes many fields', async () => {
    const token = await home.tokenOf('/console/approvals')
    const many = Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`field${at}`, 'x']))
    expect((await home.post('/console/approvals', { ...many, token, decision: 'approve' })).status).toBe(422)
    for (const path of [
      '/console/approvals',
      '/console/sign-in',
      '/console/sign-up',
      '/console/second-factor',
    ]) {
      const answer = await home.post(path, { token, comment: 'x'.repeat(70_000) })
      expect([path, answer.status]).toEqual([path, 413])
      await answer.text()
    }
  })

  test('sends its two files, which browsers may keep', async () => {
    const text = await (await home.get('/console/sign-in', '')).text()
    const files = [...text.matchAll(/(?:src|href)="(\/console\/assets\/[^"]+)"/g)].map(
      ([, path = '']) => path,
    )
    expect(files).toHaveLength(2)
    for (const file of files) {
      const answer = await home.get(file)
      expect([answer.status, answer.headers.get('cache-control')]).toEqual([
        200,
        'public, max-age=31536000, immutable',
      ])
      await answer.bytes()
    }
  })

  test('leads people without a session to the sign-in, with the way back', async () => {
    const answer = await home.get('/console/approvals/apr_1?x=1', '')
    expect([answer.status, answer.headers.get('location')]).toEqual([
      303,
      `/console/sign-in?return=${encodeURIComponent('/console/approvals/apr_1?x=1')}`,
    ])
    // API keys are for programs, so pages do not accept a key.
    const key = home.server.identities.users.owner.api_key
    const headers = { authorization: `Bearer ${key}` }
    expect(
      (await fetch(`${home.server.base}/console/approvals`, { headers, redirect: 'manual' })).status,
    ).toBe(303)
  })

  test('of an approval that does not exist or belongs to another organization is 404', async () => {
    expect((await home.get('/console/approvals/apr_1')).status).toBe(404)
    const stranger = new Browser(home.server)
    const account = { name: 'S', email: 'stranger@elsewhere.example', password: 'a long password' }
    await stranger.auth('sign-up/email', account)
    await home.server.context.db
      .updateTable('users')
      .set({ email_verified: true })
      .where('email', '=', account.email)
      .execute()
    await stranger.signIn(account.email, account.password)
    const id = await home.held()
    const answer = await home.get(`/console/approvals/${id}`, stranger.cookie)
    expect([answer.status, (await answer.text()).includes('git push')]).toEqual([404, false])
  })
})

describe('the first page', () => {
  test.each([
    ['admin', '/console/approvals'],
    ['member', '/console/approvals'],
    ['viewer', '/console/runs'],
  ] as const)('of the role %s is %s, and has content', async (who, place) => {
    const cookie = await home.cookieOf(who)
    const answer = await home.get('/console/', cookie)
    expect([answer.status, answer.headers.get('location')]).toEqual([303, place])
    expect((await home.get(place, cookie)).status).toBe(200)
  })

  test('asks for the sign-in first, which comes back to it', async () => {
    const answer = await home.get('/console/', '')
    expect(answer.headers.get('location')).toBe(`/console/sign-in?return=${encodeURIComponent('/console/')}`)
  })
})

describe('the sign-in', () => {
  const signIn = (fields: Record<string, string>) => home.post('/console/sign-in', fields, {}, '')
  const account = () => {
    const { email, password } = home.server.identities.users.admin
    return { email, password }
  }

  test.each([
    ['/console/approvals/apr_1?a=b', '/console/approvals/apr_1?a=b'],
    ['https://evil.example/console/', '/console/'],
    ['//evil.example/console/', '/console/'],
    ['/\\evil.example', '/console/'],
    ['/console/\\..\\..//evil.example', '/console/'],
    ['/console/\r\nSet-Cookie: a=b', '/console/'],
    ['/api/v1/me', '/console/'],
    ['/console/../api/v1/me', '/console/'],
    ['/console/%2e%2E//evil.example', '/console/'],
  ])('goes back to %s only if that is a page of the console', async (place, location) => {
    const answer = await signIn({ ...account(), return: place })
    expect([answer.status, answer.headers.get('location')]).toEqual([303, location])
    expect(answer.headers.getSetCookie().join('\n')).toMatch(/session_token=.*HttpOnly; SameSite=Lax/)
  })

  test('refuses a wrong password with words, and keeps no password in the page', async () => {
    const answer = await signIn({ ...account(), password: 'wrong wrong wrong', return: '' })
    const text = await answer.text()
    expect(answer.status).toBe(401)
    expect(text).toContain('role="alert"')
    expect(text).not.toContain('wrong wrong wrong')
    expect(answer.headers.getSetCookie().join('')).not.toContain('session_token')
  })

  test('refuses a form that another site sends', async () => {
    for (const headers of [
      { origin: 'https://evil.example' },
      { 'sec-fetch-site': 'cross-site' },
      { origin: 'null' },
    ])
      expect((await home.post('/console/sign-in', account(), headers, '')).status).toBe(403)
  })
})

describe('the second factor and the invitation', () => {
  test('take forms of their own session only', async () => {
    const stolen = await home.tokenOf('/console/approvals')
    const other = await home.cookieOf('member')
    for (const path of ['/console/second-factor', '/console/invitation', '/console/account'])
      for (const token of ['', stolen])
        expect([
          path,
          (await home.post(path, { token, action: 'begin', password: 'x' }, {}, other)).status,
        ]).toEqual([path, 403])
  })

  test('lead back only to pages of the console', async () => {
    const back = await home.get('/console/second-factor?return=%2Fconsole%2Faccount')
    expect(await back.text()).toContain('<a href="/console/account">Back</a>')
    for (const place of [
      'https://evil.example/',
      '//evil.example',
      '/console/../api/v1/me',
      'javascript:alert(1)',
    ]) {
      const text = await (await home.get(`/console/second-factor?return=${encodeURIComponent(place)}`)).text()
      expect(text).toContain('name="return" value="/console/"')
      expect(text).not.toContain('evil')
      expect(text).toContain('<a href="/console/">Back</a>')
    }
  })
})

// This test comes last, because the limit counts all sign-ins from this address.
test('the sign-in says 429, and how long to wait, after too many wrong passwords', async () => {
  const email = 'guessed@elsewhere.example'
  const signIn = (fields: Record<string, string>) => home.post('/console/sign-in', fields, {}, '')
  let answer = await signIn({ email, password: 'wrong 0' })
  for (let guess = 1; guess < 40 && answer.status === 401; guess += 1)
    answer = await signIn({ email, password: `wrong ${guess}` })
  expect([answer.status, Number(answer.headers.get('retry-after')) > 0]).toEqual([429, true])
  expect(await answer.text()).toMatch(/too many/i)
})
