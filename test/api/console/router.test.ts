import { request, type IncomingMessage } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Browser } from '../browser.ts'
import { startTestServer, type TestServer } from '../server.ts'
import { heldCall, holdAgents } from '../../console/support.ts'

/* Pages and forms of the console over HTTP, without a browser. */

let server: TestServer
let approver: Browser
beforeAll(async () => {
  server = await startTestServer()
  await holdAgents(server)
  const { email, password } = server.identities.users.approver
  approver = new Browser(server)
  await approver.signIn(email, password)
})
afterAll(() => server.close())

const get = (path: string, cookie = approver.cookie) =>
  fetch(`${server.base}${path}`, { headers: { cookie }, redirect: 'manual' })

/** Sends a form as a browser would, from a page of this service unless `headers` say otherwise. */
const post = (
  path: string,
  fields: Record<string, string>,
  headers: Record<string, string> = {},
  cookie = approver.cookie,
) =>
  fetch(`${server.base}${path}`, {
    method: 'POST',
    body: new URLSearchParams(fields),
    headers: { cookie, origin: server.base, 'sec-fetch-site': 'same-origin', ...headers },
    redirect: 'manual',
  })

const tokenOf = async (path: string): Promise<string> =>
  /name="token" value="([\w-]+)"/.exec(await (await get(path)).text())?.[1] ?? ''

const approvalOf = async (id: string) =>
  (await server.call(server.identities.users.admin.api_key, 'GET', `/approvals/${id}`)).body

/** Signs in a person of the organization. */
async function cookieOf(who: 'viewer' | 'member'): Promise<string> {
  const { email, password } = server.identities.users[who]
  const browser = new Browser(server)
  await browser.signIn(email, password)
  return browser.cookie
}

/** The text of a page without its elements. */
const plain = (html = ''): string => html.replaceAll(/<[^>]*>/g, '')

/** Pages around the sign-in. */
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
    const id = await heldCall(server)
    for (const path of [
      '/console/approvals',
      `/console/approvals/${id}`,
      '/console/none',
      '/console/account',
      ...open,
    ]) {
      const answer = await get(path, path === '/console/sign-in' ? '' : approver.cookie)
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
    const mine = new Browser(server)
    const { email, password, user_id: userId } = server.identities.users.owner
    await mine.signIn(email, password)
    const left = async () =>
      (
        await server.context.pool.query(
          `update auth_sessions set expires_at = expires_at where user_id = $1
           returning extract(epoch from expires_at - now()) / 86400 as days`,
          [userId],
        )
      ).rows[0].days as number
    const age = () =>
      server.context.pool.query(
        `update auth_sessions set expires_at = now() + interval '5 days', updated_at = now() - interval '2 days'
         where user_id = $1`,
        [userId],
      )
    await age()
    for (const [mode, renews] of [
      ['cors', false],
      ['navigate', true],
    ] as const) {
      // `fetch` of Node says itself which mode it has.
      const answer = await new Promise<IncomingMessage>((resolve) =>
        request(
          `${server.base}/console/approvals`,
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
    const token = await tokenOf('/console/approvals')
    const many = Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`field${at}`, 'x']))
    expect((await post('/console/approvals', { ...many, token, decision: 'approve' })).status).toBe(422)
    for (const path of [
      '/console/approvals',
      '/console/sign-in',
      '/console/sign-up',
      '/console/second-factor',
    ]) {
      const answer = await post(path, { token, comment: 'x'.repeat(70_000) })
      expect([path, answer.status]).toEqual([path, 413])
      await answer.text()
    }
  })

  test('sends its two files, which browsers may keep', async () => {
    const text = await (await get('/console/sign-in', '')).text()
    const files = [...text.matchAll(/(?:src|href)="(\/console\/assets\/[^"]+)"/g)].map(
      ([, path = '']) => path,
    )
    expect(files).toHaveLength(2)
    for (const file of files) {
      const answer = await get(file)
      expect([answer.status, answer.headers.get('cache-control')]).toEqual([
        200,
        'public, max-age=31536000, immutable',
      ])
      await answer.bytes()
    }
  })

  test('leads people without a session to the sign-in, with the way back', async () => {
    const answer = await get('/console/approvals/apr_1?x=1', '')
    expect([answer.status, answer.headers.get('location')]).toEqual([
      303,
      `/console/sign-in?return=${encodeURIComponent('/console/approvals/apr_1?x=1')}`,
    ])
    // A key is for programs.
    const key = server.identities.users.owner.api_key
    const headers = { authorization: `Bearer ${key}` }
    expect((await fetch(`${server.base}/console/approvals`, { headers, redirect: 'manual' })).status).toBe(
      303,
    )
  })

  test('of an approval that does not exist or belongs to another organization is 404', async () => {
    expect((await get('/console/approvals/apr_1')).status).toBe(404)
    const stranger = new Browser(server)
    const account = { name: 'S', email: 'stranger@elsewhere.example', password: 'a long password' }
    await stranger.auth('sign-up/email', account)
    await server.context.db
      .updateTable('users')
      .set({ email_verified: true })
      .where('email', '=', account.email)
      .execute()
    await stranger.signIn(account.email, account.password)
    const id = await heldCall(server)
    const answer = await get(`/console/approvals/${id}`, stranger.cookie)
    expect([answer.status, (await answer.text()).includes('git push')]).toEqual([404, false])
  })
})

test('a page shows the beginning of parameters that are too long for it, says so, and has the short ones', async () => {
  const id = await heldCall(server, { a: 'x'.repeat(2_000_000), command: 'git push --force' })
  const text = await (await get(`/console/approvals/${id}`)).text()
  expect(text.length).toBeLessThan(3_100_000)
  expect(text.includes('500,000 more characters are not on this page')).toBe(true)
  expect(text).toMatch(/class="text code"[^>]*>git push --force</)
})

describe('the sign-in', () => {
  const { signIn } = { signIn: (fields: Record<string, string>) => post('/console/sign-in', fields, {}, '') }
  const account = () => {
    const { email, password } = server.identities.users.admin
    return { email, password }
  }

  test.each([
    ['/console/approvals/apr_1?a=b', '/console/approvals/apr_1?a=b'],
    ['https://evil.example/console/', '/console/approvals'],
    ['//evil.example/console/', '/console/approvals'],
    ['/\\evil.example', '/console/approvals'],
    ['/console/\\..\\..//evil.example', '/console/approvals'],
    ['/console/\r\nSet-Cookie: a=b', '/console/approvals'],
    ['/api/v1/me', '/console/approvals'],
    ['/console/../api/v1/me', '/console/approvals'],
    ['/console/%2e%2E//evil.example', '/console/approvals'],
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
      expect((await post('/console/sign-in', account(), headers, '')).status).toBe(403)
  })
})

describe('a decision', () => {
  test('needs the token of its session and the origin of this service', async () => {
    const id = await heldCall(server)
    const path = `/console/approvals/${id}`
    const token = await tokenOf(path)
    const fields = { token, decision: 'approve', comment: '' }
    const other = new Browser(server)
    const { email, password } = server.identities.users.admin
    await other.signIn(email, password)
    for (const refused of [
      await post(path, { ...fields, token: '' }),
      await post(path, { ...fields, token: `${token.slice(0, -1)}_` }),
      await post(path, fields, {}, other.cookie),
      await post(path, fields, { origin: 'https://evil.example' }),
      await post(path, fields, { 'sec-fetch-site': 'same-site' }),
    ])
      expect(refused.status).toBe(403)
    expect(await approvalOf(id)).toMatchObject({ status: 'pending', votes: [] })
    expect((await post(path, fields)).status).toBe(303)
    expect(await approvalOf(id)).toMatchObject({ status: 'approved' })
  })

  test('that comes too late changes nothing, and shows what has happened', async () => {
    const id = await heldCall(server)
    const path = `/console/approvals/${id}`
    const token = await tokenOf(path)
    await server.call(server.identities.users.admin.api_key, 'POST', `/approvals/${id}/reject`, {
      comment: 'no',
    })
    const answer = await post(path, { token, decision: 'approve', comment: '' })
    const text = await answer.text()
    expect(answer.status).toBe(409)
    expect(text).toContain('already')
    expect(text).toContain('Rejected')
    expect(await approvalOf(id)).toMatchObject({ status: 'rejected' })
  })

  test('that is sent twice counts once', async () => {
    const id = await heldCall(server)
    const path = `/console/approvals/${id}`
    const fields = { token: await tokenOf(path), decision: 'approve', comment: 'twice', once: 'abcdefgh-1' }
    const answers = [await post(path, fields), await post(path, fields)]
    expect(answers.map(({ status }) => status)).toEqual([303, 303])
    expect((await approvalOf(id)).votes).toHaveLength(1)
  })
})

describe('the second factor and the invitation', () => {
  test('take forms of their own session only', async () => {
    const stolen = await tokenOf('/console/approvals')
    const other = await cookieOf('member')
    for (const path of ['/console/second-factor', '/console/invitation', '/console/account'])
      for (const token of ['', stolen])
        expect([
          path,
          (await post(path, { token, action: 'begin', password: 'x' }, {}, other)).status,
        ]).toEqual([path, 403])
  })

  test('lead back only to pages of the console', async () => {
    for (const place of [
      'https://evil.example/',
      '//evil.example',
      '/console/../api/v1/me',
      'javascript:alert(1)',
    ]) {
      const text = await (await get(`/console/second-factor?return=${encodeURIComponent(place)}`)).text()
      expect(text).toContain('name="return" value="/console/approvals"')
      expect(text).not.toContain('evil')
    }
  })
})

describe('who may not decide', () => {
  test('sees no form, reads why, and sees no parameters', async () => {
    const id = await heldCall(server, { command: 'git push origin secret-branch' })
    const texts: Record<string, string> = {}
    for (const who of ['viewer', 'member'] as const) {
      texts[who] = await (await get(`/console/approvals/${id}`, await cookieOf(who))).text()
      expect(texts[who]).not.toContain('secret-branch')
      expect(texts[who]).not.toContain('name="decision"')
    }
    expect(texts['member']).toContain('You cannot decide this')
    expect(plain(texts['member'])).toContain('You need the role admin to decide this approval.')
  })

  test('chooses nothing in the list, and reads who decides', async () => {
    const id = await heldCall(server)
    const path = '/console/approvals'
    const member = await (await get(path, await cookieOf('member'))).text()
    expect(member).toContain(`/console/approvals/${id}"`)
    expect(member).toContain('an admin or owner decides')
    expect(member).not.toMatch(/type="checkbox"|Decide the chosen ones/)
    const others = await (await get(path)).text()
    expect(others).toContain(`id="choose-${id}"`)
    expect(others).not.toContain('an admin or owner decides')
  })

  test('is not led in a circle if the role may not see the list', async () => {
    const answer = await get('/console/approvals', await cookieOf('viewer'))
    const main = (await answer.text()).split('<main')[1] ?? ''
    expect([answer.status, main.includes('Ask an admin or owner')]).toEqual([403, true])
    expect(main).not.toContain('<a ')
  })
})

describe('text of strangers', () => {
  test('stays text: markup, marks of direction, line breaks and a megabyte', async () => {
    const long = `start-of-it${'x'.repeat(1_000_000)}`
    const id = await heldCall(server, {
      command: 'curl https://a.example/<script>alert(1)</script> \u202Egpj.exe',
      'a\n</dt><h1>Approved</h1>': long,
    })
    const answer = await get(`/console/approvals/${id}`)
    const text = await answer.text()
    expect(answer.status).toBe(200)
    expect(text).not.toContain('<script>alert')
    expect(text).not.toContain('<h1>Approved')
    expect(text).not.toContain('\u202e')
    expect(text).toContain('U+202E')
    expect(text).toContain(long)
  })
})

describe('a request for changes', () => {
  test('needs a comment, and is a rejection that the requester reads as such', async () => {
    const id = await heldCall(server)
    const path = `/console/approvals/${id}`
    const token = await tokenOf(path)
    const empty = await post(path, { token, decision: 'request_changes', comment: ' ' })
    expect([empty.status, (await empty.text()).includes('Say in the comment')]).toEqual([422, true])
    expect((await post(path, { token, decision: 'request_changes', comment: 'use a branch' })).status).toBe(
      303,
    )
    expect(await approvalOf(id)).toMatchObject({
      status: 'rejected',
      votes: [{ decision: 'reject', comment: 'use a branch', changes_requested: true }],
    })
  })
})

describe('several at once', () => {
  const bulk = async (fields: [string, string][]) =>
    fetch(`${server.base}/console/approvals`, {
      method: 'POST',
      body: new URLSearchParams([['token', await tokenOf('/console/approvals')], ...fields]),
      headers: { cookie: approver.cookie, origin: server.base },
    })

  test('are approved only if tool, rule and labels are the same, each with its own vote', async () => {
    const ids = [await heldCall(server), await heldCall(server)]
    const chosen = ids.map((id): [string, string] => ['id', id])
    const answer = await bulk([['decision', 'approve'], ['comment', 'both'], ...chosen])
    expect([answer.status, (await answer.text()).includes('You approved 2 calls.')]).toEqual([200, true])
    expect(await (await get(`/console/approvals/${ids[0] ?? ''}`)).text()).toMatch(
      /approver@[^<]*<\/bdi> approved\./,
    )
    for (const id of ids)
      expect(await approvalOf(id)).toMatchObject({ status: 'approved', votes: [{ comment: 'both' }] })
    const other = await heldCall(server, { to: 'a@b.example' }, 'mcp__mail__send_mail')
    const third = await heldCall(server)
    const refused = await bulk([
      ['decision', 'approve'],
      ['comment', 'keep me'],
      ['id', other],
      ['id', third],
    ])
    const page = await refused.text()
    expect(refused.status).toBe(422)
    expect(page).toMatch(/role="alert"><p>Nothing was decided. Only calls of one tool/)
    expect(plain(page)).toContain('Differs from the first one in tool.')
    for (const id of [other, third]) expect(page).toMatch(new RegExp(`<input[^>]*value="${id}"[^>]*checked`))
    expect(page).toMatch(/bulk"[^>]* open/)
    expect(page).toContain('>keep me</textarea>')
    for (const id of [other, third]) expect(await approvalOf(id)).toMatchObject({ status: 'pending' })
    await bulk([
      ['decision', 'reject'],
      ['id', other],
      ['id', third],
    ])
    for (const id of [other, third]) expect(await approvalOf(id)).toMatchObject({ status: 'rejected' })
  })

  test('show what an agent would run only to people who may decide', async () => {
    const id = await heldCall(server, { command: `curl https://a.example/${'x'.repeat(300)}` })
    await heldCall(server, { note: 'n', to: 'bo@b.example' }, 'mcp__mail__send_mail')
    const page = plain(await (await get('/console/approvals')).text())
    expect(page).toContain('Run “curl https://a.example/xxx')
    expect(page).toContain('more characters)')
    expect(page).toContain('Call mcp__mail__send_mail with to “bo@b.example”')
    expect((await approvalOf(id)).preview).toMatchObject({ fields: [{ name: 'command' }] })
    const member = await (await get('/console/approvals', await cookieOf('member'))).text()
    expect(member).not.toContain('https://a.example')
  })

  test('are listed by kind, rule, person and risk', async () => {
    const id = await heldCall(server)
    const { rule_id, requested_by, risk } = await approvalOf(id)
    const shows = async (query: string) =>
      (await (await get(`/console/approvals?${query}`)).text()).includes(`/console/approvals/${id}"`)
    for (const query of [
      'kind=agent_call',
      `rule_id=${rule_id}`,
      `requested_by=${requested_by}`,
      `risk=${risk.level}`,
    ])
      expect([query, await shows(query)]).toEqual([query, true])
    for (const query of ['kind=run', 'rule_id=rule_1', 'requested_by=usr_1', 'risk=critical'])
      expect([query, await shows(query)]).toEqual([query, false])
  })
})

// The last one, because the limit counts all sign-ins of this address.
test('the sign-in says 429, and how long to wait, after too many wrong passwords', async () => {
  const email = 'guessed@elsewhere.example'
  const signIn = (fields: Record<string, string>) => post('/console/sign-in', fields, {}, '')
  let answer = await signIn({ email, password: 'wrong 0' })
  for (let guess = 1; guess < 40 && answer.status === 401; guess += 1)
    answer = await signIn({ email, password: `wrong ${guess}` })
  expect([answer.status, Number(answer.headers.get('retry-after')) > 0]).toEqual([429, true])
  expect(await answer.text()).toMatch(/too many/i)
})
