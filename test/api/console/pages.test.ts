import { request, type IncomingMessage } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import {
  agentSession,
  approvalsOf,
  heldStep,
  holdSteps,
  unknownRun,
  type Who,
} from '../../console/support.ts'
import { Browser } from '../browser.ts'
import { addOrganization } from '../fixtures.ts'
import { plain, startPages, type PagesHome } from './pages-home.ts'

/* Pages and forms of the console over HTTP: sessions of agents, the list of approvals, and what all pages have. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages({ SMTP_URL: 'smtp://127.0.0.1:1' })
})
afterAll(() => home?.server.close())

const inbox = '/console/approvals'

// This test comes first, because other tests make sessions.
test('the list of sessions says what a person can do while it is empty', async () => {
  const text = plain(await home.main('/console/sessions'))
  expect(text).toContain('No agent has asked yet.')
  expect(plain(await home.main('/console/sessions/install'))).toMatch(
    /curl -sS -o service_hook\.py (http\S+)\/api\/v1\/integrations\/service_hook\.py[\s\S]*SERVICE_API_URL=\1 SERVICE_API_KEY=KEY python3 service_hook\.py install/,
  )
})

describe('the list of sessions', () => {
  const ask = (session_id: string, name: string, tool_name = 'Glob') => {
    const asked = { agent: { name, kind: 'coding_agent' }, session_id, tool_name, tool_input: {} }
    return home.server.call(home.server.identities.agent_key, 'POST', '/authorize', asked)
  }
  /** The text of the row of each session of an agent, without the times that pass. */
  const rowsOf = async (name: string): Promise<string[]> =>
    (await home.main('/console/sessions'))
      .split('<li class="item')
      .map(plain)
      .filter((row) => row.includes(name))

  test('tells two sessions of one agent apart, also by the ends of long ids', async () => {
    const same = '7f3c51d2-1111-4000-8000'
    for (const end of ['aaaaaaaa', 'bbbbbbbb']) await ask(`${same}-${end}`, 'Two of one')
    const rows = await rowsOf('Two of one')
    expect(rows).toHaveLength(2)
    expect(rows[0]).toContain('Session 7f3c51d2…bbbbbbbb of member@')
    expect(rows[1]).toContain('Session 7f3c51d2…aaaaaaaa of member@')
    for (const row of rows) expect(row).toMatch(/Started \d+ seconds? ago \(\d+ \w+ \d{4}, \d\d:\d\d UTC\)/)
  })

  test('marks and folds the checks of doctor, and no other session', async () => {
    const check = 'doctor-4711-1764111730'
    await ask(check, 'doctor')
    await ask('no-check', 'doctor')
    await ask('doctor-4711-1764111731', 'Impostor')
    for (const tool of ['Glob', 'Read', 'Read']) await ask('doctor-4711-1764111732', 'doctor', tool)
    const words = 'Calls itself a check by doctor'
    const marked = async (name: string) => (await rowsOf(name)).filter((row) => row.includes(words)).length
    expect([await marked('doctor'), await marked('Impostor')]).toEqual([2, 0])
    const [, folded = ''] = (await home.main('/console/sessions')).split('<details id="checks">')
    expect(plain(folded)).toMatch(/^1 that calls itself a check by doctor/)
    expect(plain(folded)).not.toMatch(/no-check|Impostor/)
    const [{ id }] = (await home.call('admin', 'GET', `/agent-sessions?session_id=${check}`)).body.data
    expect(plain(await home.main(`/console/sessions/${id}`))).toContain(words)
  })
})

test('a session’s page shows decisions, labels, unclassed tools, what waits, and calls without a decision; and revokes', async () => {
  const id = await agentSession(home.server)
  const path = `/console/sessions/${id}`
  const text = await home.main(path)
  for (const words of [
    'member@',
    'internal',
    '1 call ran without a decision',
    // The sentence of the list of approvals.
    'Run “git push”',
    'Held for approval',
    'Live',
    ...['Tools that nobody has classed', 'mcp__board__list', 'An owner can class them'],
  ])
    expect(text).toContain(words)
  expect(plain(text)).toContain('internal from tool Read')
  // No call was denied, and that is no alarm.
  expect(text).toMatch(/class="badge off"><svg[^>]*><path[^>]*><\/path><\/svg>Denied/)
  const decided = text.slice(text.indexOf('What was decided'))
  const [bash, read] = ['Bash', 'Read</bdi></code>'].map((tool) =>
    decided.indexOf(`<bdi class="words">${tool}`),
  )
  expect(bash).toBeLessThan(read ?? 0)
  const { session_run_id: record } = (await home.call('admin', 'GET', `/agent-sessions/${id}`)).body
  const [{ approval_id: held }] = (await home.call('admin', 'GET', `/runs/${record}`)).body.waiting_for
  expect(await home.main(`/console/approvals/${held}`)).toContain(`${path}"`)
  expect(await home.main('/console/sessions?status=live')).toContain(`${path}"`)
  expect(await home.main('/console/sessions?status=revoked')).not.toContain(`${path}"`)
  const fields = { token: await home.tokenOf(path), action: 'revoke', reason: 'a stolen laptop' }
  expect((await home.post(path, fields)).status).toBe(303)
  const revoked = await home.main(path)
  expect(revoked).toMatch(/Revoked by .*approver@.*a stolen laptop/)
  expect(revoked).not.toContain('Revoke the session')
})

describe('several approvals at once', () => {
  const bulk = async (decision: string, ids: readonly string[], more: [string, string][] = []) =>
    home.post(inbox, [
      ['token', await home.tokenOf(inbox)],
      ['decision', decision],
      ...more,
      ...ids.map((id): [string, string] => ['id', id]),
    ])

  test('are approved only if tool, rule and labels are the same, each with its own vote', async () => {
    const ids = [await home.held(), await home.held()]
    const answer = await bulk('approve', ids, [['comment', 'both']])
    expect(answer.status).toBe(303)
    const result = answer.headers.get('location') ?? ''
    expect(plain(await home.html(result))).toContain('You approved 2 calls.')
    // The same address says nothing false to a person who decided nothing.
    const admins = plain(await home.html(result, 'admin'))
    expect(admins).toContain('You approved 0 calls.')
    expect(admins).toContain('The approval is already approved.')
    expect(await home.html(`${inbox}/${ids[0]}`)).toMatch(/approver@[^<]*<\/bdi> approved\./)
    for (const id of ids)
      expect(await home.approvalOf(id)).toMatchObject({ status: 'approved', votes: [{ comment: 'both' }] })
    const different = [await home.held({ to: 'a@b.example' }, 'mcp__mail__send_mail'), await home.held()]
    const refused = await bulk('approve', different, [['comment', 'keep me']])
    const page = await refused.text()
    expect(refused.status).toBe(422)
    expect(page).toMatch(/role="alert"><p>Nothing was decided. Only calls of one tool/)
    expect(plain(page)).toContain('Differs from the first one in tool.')
    expect(page).toMatch(/bulk"[^>]* open/)
    expect(page).toContain('>keep me</textarea>')
    for (const id of different) {
      expect(page).toMatch(new RegExp(`<input[^>]*value="${id}"[^>]*checked`))
      expect(await home.approvalOf(id)).toMatchObject({ status: 'pending' })
    }
    await bulk('reject', different)
    for (const id of different) expect(await home.approvalOf(id)).toMatchObject({ status: 'rejected' })
  })

  test('that a second tap sends again count once, and the person reads that they count', async () => {
    const ids = [await home.held(), await home.held()]
    expect(await home.html(inbox)).toMatch(/name="once" value="[\w-]{36}"/)
    for (let tap = 0; tap < 2; tap += 1) {
      const answer = await bulk('approve', ids, [['once', 'abcdefgh-bulk']])
      expect(answer.status).toBe(303)
      expect(plain(await home.html(answer.headers.get('location') ?? ''))).toContain('You approved 2 calls.')
    }
    for (const id of ids) expect((await home.approvalOf(id)).votes).toHaveLength(1)
  })

  test('that could be decided only in part name the others and why, under the same filter', async () => {
    const [mine, late] = [await home.held(), await home.held()]
    // The list has its form as long as a call waits.
    await home.held()
    const token = await home.tokenOf(inbox)
    await home.call('admin', 'POST', `/approvals/${late}/reject`, {})
    const fields: [string, string][] = [
      ['token', token],
      ['decision', 'reject'],
      ['id', mine],
      ['id', late],
    ]
    const answer = await home.post(`${inbox}?kind=agent_call`, fields)
    const result = `${inbox}?kind=agent_call&decision=reject&decided=${mine}+${late}`
    expect([answer.status, answer.headers.get('location')]).toEqual([303, result])
    const page = await home.html(result)
    expect(page).toContain('role="alert"')
    expect(plain(page)).toContain('You rejected 1 call.')
    expect(plain(page)).toContain('The approval is already rejected.')
    // Nothing counted, so the form is shown again with everything that was written.
    const again = await home.post(inbox, [...fields, ['comment', 'kept words']])
    expect(again.status).toBe(422)
    expect(await again.text()).toContain('>kept words</textarea>')
  })
})

describe('the list of approvals', () => {
  const link = (id: string) => `${inbox}/${id}"`

  test('shows what an agent would run only to people who may decide', async () => {
    const id = await home.held({ command: `curl https://a.example/${'x'.repeat(300)}` })
    await home.held({ note: 'n', to: 'bo@b.example' }, 'mcp__mail__send_mail')
    const page = plain(await home.html(inbox))
    expect(page).toContain('Run “curl https://a.example/xxx')
    expect(page).toContain('more characters)')
    expect(page).toContain('Call mcp__mail__send_mail with to “bo@b.example”')
    expect((await home.approvalOf(id)).preview).toMatchObject({ fields: [{ name: 'command' }] })
    const others = await home.get(inbox, await home.bystanderCookie())
    expect(await others.text()).not.toContain('https://a.example')
  })

  test('is filtered by kind, rule, person and risk', async () => {
    const id = await home.held()
    const { rule_id, requested_by, risk } = await home.approvalOf(id)
    const shows = async (query: string, who?: Who) =>
      (await home.html(`${inbox}?${query}`, who)).includes(link(id))
    const of = [`rule_id=${rule_id}`, `requested_by=${requested_by}`, `risk=${risk.level}`]
    for (const query of [...of, 'kind=agent_call', 'mine=true'])
      expect([query, await shows(query)]).toEqual([query, true])
    for (const query of ['kind=run', 'rule_id=rule_1', 'requested_by=usr_1', 'risk=critical'])
      expect([query, await shows(query)]).toEqual([query, false])
    expect(await shows('mine=true', 'member')).toBe(false)
    // The choices cover everything that waits in the organization, even while a filter shows nothing.
    const page = plain(await home.html(`${inbox}?kind=run`))
    const path = `/organizations/${home.server.identities.organization_id}/approvals/summary`
    const { body } = await home.call('member', 'GET', path)
    const [rule] = body.rules as { rule_name: string; count: number }[]
    expect(page).toContain(`${rule?.rule_name} (${rule?.count})`)
    expect(page).toContain(`Calls of agents (${body.total})`)
    expect(page).not.toContain('Steps of runs (')
    expect(page).toContain('Nothing that waits matches the filter.')
  })

  test('names the agent of a call, and says how many labels a row leaves out', async () => {
    const id = await home.held({ command: 'git push origin labels' })
    const labels = Array.from({ length: 7 }, (_, index) => `label-${index}`)
    await home.server.context.pool.query('update approvals set labels = $2 where id = $1', [id, labels])
    const page = plain(await home.html(inbox))
    expect(page).toContain('with Claude Code')
    expect(page).toContain('label-4and 2 more')
    expect(page).not.toContain('label-5')
  })

  test('gives nothing to choose to a person who may not decide, who reads who decides', async () => {
    const id = await home.held()
    const member = await home.html(inbox, 'member')
    expect(member).toContain(link(id))
    expect(member).toContain('an admin or owner decides')
    expect(member).not.toMatch(/type="checkbox"|Decide the chosen ones/)
    const others = await home.html(inbox)
    expect(others).toContain(`id="choose-${id}"`)
    expect(others).not.toContain('an admin or owner decides')
  })

  test('has pages of calls whose outcome is unknown, which follow the filters that fit them', async () => {
    /** The page, and how many such calls it shows. */
    const listed = async (query: string) => {
      const text = await home.html(`${inbox}?${query}`)
      return { count: text.split('Outcome unknown').length - 1, text }
    }
    await unknownRun(home.server, 12)
    const first = await listed('')
    expect(first.count).toBe(10)
    const next = /href="\/console\/approvals\?(unknown=[^"]*)"/.exec(first.text)?.[1] ?? ''
    expect((await listed(next)).count).toBe(2)
    const { member: requester, admin } = home.server.identities.users
    for (const [query, count] of [
      [`requested_by=${requester.user_id}`, 10],
      ['kind=resolution', 10],
      [`requested_by=${admin.user_id}`, 0],
      ['kind=agent_call', 0],
      ['risk=low', 0],
      ['rule_id=rule_1', 0],
    ] as const)
      expect([query, (await listed(query)).count]).toEqual([query, count])
    expect((await listed('kind=resolution')).text).not.toContain('type="checkbox"')
    const member = await home.html(inbox, 'member')
    expect(member).toContain('An admin or owner says what became of it.')
    expect(member).not.toContain('It happened…')
  })

  test('has the calls of one step in the order of its items', async () => {
    await holdSteps(home.server, ['mail_send'])
    const params = { to: '{{item}}', subject: 's', text: 't' }
    const items = ['a@a.example', 'b@a.example', 'c@a.example']
    const runId = await heldStep(home.server, { tool: 'mail_send', params }, { items })
    const ids = await approvalsOf(home.server, runId)
    const page = await home.html(inbox)
    const listed = [...page.matchAll(/id="choose-(\w+)"/g)].map(([, id = '']) => id)
    expect(listed.filter((id) => ids.includes(id))).toEqual(ids)
    const rows = /step send, item 1 · Rule .*step send, item 2 · Rule .*step send, item 3 · Rule /s
    expect(plain(page)).toMatch(rows)
    expect(plain(page)).toMatch(/Organization: .* wait/)
    const differ = await home.post(inbox, [
      ['token', await home.tokenOf(inbox)],
      ['decision', 'approve'],
      ['id', ids[0] ?? ''],
      ['id', await home.held()],
    ])
    expect(plain(await differ.text())).toContain('Differs from the first one in tool and rule.')
  })
})

/** The pages of the sign-in, which need no session. */
const open = [
  ...['/console/sign-in', '/console/sign-in/code', '/console/sign-up', '/console/reset-password'],
  ...['reset-password', 'confirm-address', 'invitation'].map(
    (name) => `/console/${name}?token=${'t'.repeat(24)}`,
  ),
  '/console/second-factor',
]

describe('a page', () => {
  test('leads people who may not see it to the first page of their role', async () => {
    const answer = await home.get('/console/people', await home.cookieOf('viewer'))
    const part = (await answer.text()).split('<main')[1] ?? ''
    expect([answer.status, part.includes('ask an owner')]).toEqual([403, true])
    expect(part.match(/<a [^>]*>/g)).toEqual(['<a href="/console/">'])
  })

  test('loads only files of this service, runs nothing inline, and is not kept', async () => {
    const id = await home.held()
    for (const path of [inbox, `${inbox}/${id}`, '/console/none', '/console/account', ...open]) {
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
      const names = ['cache-control', 'x-frame-options', 'referrer-policy']
      const referrer = open.includes(path) ? 'strict-origin' : 'same-origin'
      const sent = names.map((name) => answer.headers.get(name))
      expect([path, ...sent]).toEqual([path, 'no-store', 'DENY', referrer])
      expect(await answer.text()).not.toMatch(/<script(?![^>]* src=)|<style|style="|\son\w+="/)
    }
  })

  test('renews a session that was used for a day, but not by the looks of a page that is left open', async () => {
    const mine = new Browser(home.server)
    const { email, password, user_id: userId } = home.server.identities.users.owner
    await mine.signIn(email, password)
    const change = async (set: string) => {
      const left = 'returning extract(epoch from expires_at - now()) / 86400 as days'
      const statement = `update auth_sessions set ${set} where user_id = $1 ${left}`
      return (await home.server.context.pool.query(statement, [userId])).rows[0].days as number
    }
    await change(`expires_at = now() + interval '5 days', updated_at = now() - interval '2 days'`)
    for (const [mode, renews] of [
      ['cors', false],
      ['navigate', true],
    ] as const) {
      // `fetch` of Node always sets `Sec-Fetch-Mode` itself.
      const headers = { cookie: mine.cookie, 'sec-fetch-mode': mode }
      const answer = await new Promise<IncomingMessage>((resolve) =>
        request(`${home.server.base}${inbox}`, { headers }, resolve).end(),
      )
      answer.resume()
      const cookies = answer.headers['set-cookie'] ?? []
      expect(cookies.some((line) => line.includes('session_token'))).toBe(renews)
      expect((await change('expires_at = expires_at')) > 6).toBe(renews)
    }
  })

  test('refuses forms that are too large, and takes many fields', async () => {
    const token = await home.tokenOf(inbox)
    const many = Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`field${at}`, 'x']))
    expect((await home.post(inbox, { ...many, token, decision: 'approve' })).status).toBe(422)
    for (const path of [inbox, '/console/sign-in', '/console/sign-up', '/console/second-factor']) {
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
      const kept = 'public, max-age=31536000, immutable'
      expect([answer.status, answer.headers.get('cache-control')]).toEqual([200, kept])
      await answer.bytes()
    }
  })

  test('takes no API key', async () => {
    const headers = { authorization: `Bearer ${home.server.identities.users.owner.api_key}` }
    const withKey = await fetch(`${home.server.base}${inbox}`, { headers, redirect: 'manual' })
    expect(withKey.status).toBe(303)
  })

  test('of an approval of another organization is the same 404 as of none', async () => {
    const stranger = new Browser(home.server)
    const account = { name: 'S', email: 'stranger@elsewhere.example', password: 'a long password' }
    await stranger.auth('sign-up/email', account)
    await home.server.context.pool.query('update users set email_verified = true where email = $1', [
      account.email,
    ])
    await stranger.signIn(account.email, account.password)
    expect((await home.get(`${inbox}/apr_1`)).status).toBe(404)
    const told = []
    for (const id of [await home.held(), 'apr_01M84JRMXWJCN4SAPKWPR67K5S']) {
      const answer = await home.get(`${inbox}/${id}`, stranger.cookie)
      told.push([answer.status, plain((await answer.text()).split('<main')[1])])
    }
    expect(told[0]).toEqual([404, expect.not.stringContaining('git push')])
    expect(told[1]).toEqual(told[0])
  })
})

describe('a form that is sent after another tab has switched to another organization', () => {
  /** The owner, in another organization meanwhile. */
  async function switched() {
    const { context, identities } = home.server
    const { id: other } = await addOrganization(context)
    await context.db
      .insertInto('memberships')
      .values({ organization_id: other, user_id: identities.users.owner.user_id, role: 'owner' })
      .execute()
    const cookie = await home.cookieOf('owner')
    return { other, cookie, there: `${cookie}; countersign.organization=${other}` }
  }

  test('does nothing, keeps what was typed, and works again after the switch back', async () => {
    const path = '/console/webhooks'
    const { other, cookie, there } = await switched()
    const { organization_id: ours } = home.server.identities
    const url = 'https://hooks.larkspur.example/in'
    const fields = { token: await home.tokenOf(path, 'owner'), url, events: 'run.failed' }
    const refused = await home.post(path, fields, {}, there)
    const text = await refused.text()
    expect(refused.status).toBe(409)
    expect(text).toContain('You have switched to another organization')
    expect(text).toContain(`name="organization_id" value="${ours}"`)
    expect(text).toContain(`name="url" value="${url}"`)
    const made = () =>
      home.server.context.db
        .selectFrom('webhooks')
        .select('organization_id')
        .where('host', '=', new URL(url).host)
        .execute()
    expect(await made()).toEqual([])
    expect((await home.post(path, fields, {}, cookie)).status).toBe(200)
    expect(await made()).toEqual([{ organization_id: ours }])
    expect(other).not.toBe(ours)
  })

  test('does not show its secrets', async () => {
    const { there } = await switched()
    const token = await home.tokenOf('/console/account', 'owner')
    const fields = { token, action: 'save', kind: 'oidc', client_secret: 'a-secret-of-ours' }
    const refused = await home.post('/console/provider', fields, {}, there)
    expect([refused.status, (await refused.text()).includes('a-secret-of-ours')]).toEqual([409, false])
  })

  test('still switches and signs out', async () => {
    const { other, cookie, there } = await switched()
    const token = await home.tokenOf('/console/account', 'owner')
    const fields = { token, organization_id: other }
    for (const sent of [cookie, there])
      expect((await home.post('/console/organization', fields, {}, sent)).status).toBe(303)
  })
})

describe('a refused form', () => {
  test('with a NUL is refused', async () => {
    const fields = { token: await home.tokenOf('/console/keys/new', 'owner'), organization_id: 'a\0b' }
    const answer = await home.post('/console/keys/new', fields, {}, await home.cookieOf('owner'))
    expect(answer.status).toBe(400)
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
    ...[
      ...['https://evil.example/console/', '//evil.example/console/', '/\\evil.example'],
      ...['/console/\\..\\..//evil.example', '/console/\r\nSet-Cookie: a=b', '/api/v1/me'],
      ...['/console/../api/v1/me', '/console/%2e%2E//evil.example'],
    ].map((place) => [place, '/console/'] as const),
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
})

describe('the second factor and the invitation', () => {
  test('take forms of their own session only', async () => {
    const stolen = await home.tokenOf(inbox)
    const other = await home.cookieOf('member')
    for (const path of [
      '/console/second-factor',
      '/console/account/sessions',
      '/console/invitation',
      '/console/account',
    ])
      for (const token of ['', stolen]) {
        // An invitation with a password makes an account, which no session has yet.
        const sent = path === '/console/invitation' ? { token } : { token, action: 'begin', password: 'x' }
        const { status } = await home.post(path, sent, {}, other)
        expect([path, status]).toEqual([path, 403])
      }
  })

  test('lead back only to pages of the console', async () => {
    const page = (place: string) => home.html(`/console/second-factor?return=${encodeURIComponent(place)}`)
    expect(await page('/console/account')).toContain('<a href="/console/account">Back</a>')
    const places = ['https://evil.example/', '//evil.example', '/console/../api/v1/me', 'javascript:alert(1)']
    for (const place of places) {
      const text = await page(place)
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
