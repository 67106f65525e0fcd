import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { mostGuesses } from '../../../src/governance/people/guesses.ts'
import { beginTerminalLogin, mostOfAddress } from '../../../src/governance/people/terminal-logins.ts'
import { newId } from '../../../src/contract/ids.ts'
import { startPages, type PagesHome } from '../console/pages-home.ts'
import { startBeside } from '../server.ts'
import { codeOf } from '../use-server.ts'
import { requireFactors } from '../fixtures.ts'

/* `countersign login`: a terminal gets a key that counts from the moment when a person has compared its code. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())
beforeEach(() => home.server.context.pool.query('delete from auth_rate_limits; delete from password_guesses'))

interface Answer {
  readonly status: number
  readonly body: Readonly<Record<string, string>>
}

async function terminal(path: string, body: unknown): Promise<Answer> {
  const answer = await fetch(`${home.server.base}/api/auth/terminal/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return { status: answer.status, body: (await answer.json()) as Answer['body'] }
}

/** The address of the earlier ones is another one: only one test is about their number. */
async function begin(machine = 'laptop') {
  const { context } = home.server
  await context.pool.query(`update terminal_logins set address = 'other'`)
  await context.pool.query(`delete from terminal_logins where address = 'other' and status <> 'approved'
    and created_at < clock_timestamp() - interval '1 minute'`)
  const { status, body } = await terminal('begin', { machine })
  expect(status).toBe(200)
  return { key: body['device_code'] ?? '', code: body['user_code'] ?? '', body }
}

const stateOf = async (key: string) => (await terminal('poll', { device_code: key })).body['status']
const works = async (key: string) => (await home.server.call(key, 'GET', '/me')).status
const approve = (who: Parameters<PagesHome['call']>[0], code: string) =>
  home.call(who, 'POST', '/terminal-logins/approve', { code })
const look = (who: Parameters<PagesHome['call']>[0], code: string) =>
  home.call(who, 'POST', '/terminal-logins/look', { code })
const eventsOf = async (type: string): Promise<object[]> => {
  const { rows } = await home.server.context.pool.query(
    `select canonical::jsonb->'metadata' as metadata from audit_events where event_type = $1 order by seq desc`,
    [type],
  )
  return rows
}

test('the key counts only after a person has said yes, and is one of theirs, with the scopes of the role, for 30 days', async () => {
  const { key, code, body } = await begin()
  expect(body).toMatchObject({ expires_in: 600, interval: 5 })
  expect(body['verification_uri_complete']).toBe(`${body['verification_uri']}?code=${code}`)
  expect([await stateOf(key), await works(key)]).toEqual(['pending', 401])
  const seen = await look('member', code)
  expect(seen.body).toMatchObject({ machine: 'laptop', address: '127.0.0.1', status: 'open' })
  expect(JSON.stringify(seen.body)).not.toContain(key)

  const { status, body: made } = await approve('member', code.toLowerCase().replace('-', ' '))
  expect(status).toBe(200)
  expect([await stateOf(key), await works(key)]).toEqual(['approved', 200])
  const me = (await home.server.call(key, 'GET', '/me')).body
  expect(me.user.email).toBe(home.server.identities.users.member.email)
  expect(Object.keys(me.scopes)).toContain('runs:write')
  expect(Object.keys(me.scopes)).not.toContain('rules:write')
  const listed = (await home.call('member', 'GET', `/api-keys/${made.key_id}`)).body
  expect(listed.name).toBe('countersign login on laptop')
  const days = (Date.parse(listed.expires_at) - Date.parse(listed.created_at)) / 86_400_000
  expect(Math.round(days)).toBe(30)
  expect((await eventsOf('terminal_login.approved'))[0]).toMatchObject({
    metadata: { key_id: made.key_id, machine: 'laptop', address: '127.0.0.1' },
  })
  // Neither the key nor the code is in the database.
  const { rows } = await home.server.context.pool.query('select t::text as row from terminal_logins t')
  for (const { row } of rows) expect([row.includes(key), row.includes(code.replace('-', ''))]).toEqual([false, false]) // prettier-ignore
})

test('it is decided once: a second yes, also of another person at the same moment, is refused', async () => {
  const { key, code } = await begin()
  const both = await Promise.all([approve('member', code), approve('admin', code)])
  expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409])
  expect(codeOf(await approve('member', code))).toBe('409 conflict')
  expect(codeOf(await home.call('owner', 'POST', '/terminal-logins/deny', { code }))).toBe('409 conflict')
  expect(await works(key)).toBe(200)
  const { rows } = await home.server.context.pool.query(
    `select count(*)::int as keys from api_keys where last4 = $1`,
    [key.slice(-4)],
  )
  expect(rows[0].keys).toBe(1)
})

test('a refused terminal gets nothing, and nobody can say yes later', async () => {
  const { key, code } = await begin('stranger')
  expect((await home.call('member', 'POST', '/terminal-logins/deny', { code })).body.status).toBe('denied')
  expect([await stateOf(key), await works(key)]).toEqual(['denied', 401])
  expect(codeOf(await approve('member', code))).toBe('409 conflict')
  expect((await eventsOf('terminal_login.denied'))[0]).toMatchObject({ metadata: { machine: 'stranger' } })
})

test('after ten minutes the code is nothing', async () => {
  const { key, code } = await begin()
  await home.server.context.pool.query(`update terminal_logins set expires_at = clock_timestamp()`)
  expect(await stateOf(key)).toBe('expired')
  expect(codeOf(await approve('member', code))).toBe('404 not_found')
  expect(await works(key)).toBe(401)
})

test('a person who guesses codes is stopped, and a right code does not count as a guess', async () => {
  const { code } = await begin()
  for (let times = 0; times < mostGuesses + 2; times += 1)
    expect((await look('viewer', code)).status).toBe(200)
  for (let times = 0; times < mostGuesses; times += 1)
    expect(codeOf(await look('viewer', `BBBB-BBB${'BCDF'[times % 4]}`))).toBe('404 not_found')
  expect(codeOf(await look('viewer', code))).toBe('429 quota_exceeded')
  expect(codeOf(await approve('viewer', code))).toBe('429 quota_exceeded')
  expect((await approve('member', code)).status).toBe(200)
})

test('one address may have few open terminals, and asks a limited number of times', async () => {
  await begin()
  const many = []
  for (let times = 0; times < mostOfAddress; times += 1) {
    await home.server.context.pool.query('delete from auth_rate_limits')
    many.push((await terminal('begin', { machine: 'm' })).status)
  }
  expect(many.filter((status) => status === 200)).toHaveLength(mostOfAddress - 1)
  expect(many.at(-1)).toBe(429)
  const { pool } = home.server.context
  // Decided ones do not wait.
  await pool.query(`update terminal_logins set status = 'denied' where machine = 'm' and ctid in
    (select ctid from terminal_logins where machine = 'm' limit 1)`)
  await pool.query('delete from auth_rate_limits')
  expect([(await terminal('begin', { machine: 'm' })).status, (await terminal('begin', { machine: 'm' })).status]).toEqual([200, 429]) // prettier-ignore
  await pool.query('delete from auth_rate_limits')
  const statuses = await Promise.all(
    Array.from({ length: 130 }, () => terminal('poll', { device_code: 'x' })),
  )
  expect(new Set(statuses.map(({ status }) => status))).toEqual(new Set([200, 429]))
})

test('a whole /64 is one address', async () => {
  const { db } = home.server.context
  const from = (address: string) => beginTerminalLogin({ db }, { machine: 'six', address })
  for (let at = 0; at < mostOfAddress; at += 1) await from(`2001:db8:1:2::${at}`)
  await expect(from('2001:db8:1:2:ffff::9')).rejects.toThrow('too many terminals wait')
  expect((await from('2001:db8:1:3::1')).code).toMatch(/^[A-Z]{8}$/)
  expect((await from('fe80::1%eth0')).code).toMatch(/^[A-Z]{8}$/)
})

test('what a terminal says of itself is one line', async () => {
  expect((await terminal('begin', { machine: 'a\u202eb\nYes, sign it in' })).status).toBe(400)
  expect((await terminal('begin', { machine: 'x'.repeat(101) })).status).toBe(400)
})

describe('what the rights of the person limit', () => {
  test('a key cannot give more than it has', async () => {
    const { code, key } = await begin()
    const narrow = await home.call('admin', 'POST', '/api-keys', {
      name: 'narrow',
      scopes: ['api_keys:*', 'runs:read'],
    })
    const path = '/terminal-logins/approve'
    expect((await home.server.call(narrow.body.api_key, 'POST', path, { code })).status).toBe(200)
    const { scopes } = (await home.server.call(key, 'GET', '/me')).body
    expect(Object.keys(scopes)).toEqual(['api_keys:*', 'runs:read'])
  })

  test('a key without the scope, and a stranger, cannot say yes', async () => {
    const { code, key } = await begin()
    const path = '/terminal-logins/approve'
    const reader = await home.call('admin', 'POST', '/api-keys', { name: 'r', scopes: ['runs:read'] })
    expect(codeOf(await home.server.call(reader.body.api_key, 'POST', path, { code }))).toBe(
      '403 missing_scope',
    )
    expect(codeOf(await home.server.call(null, 'POST', path, { code }))).toBe('401 unauthenticated')
    const other = { code, organization_id: newId('organization') }
    expect((await home.call('member', 'POST', path, other)).status).toBe(404)
    expect(await stateOf(key)).toBe('pending')
  })

  test('where a second factor is required, a session without one cannot say yes', async () => {
    const { code, key } = await begin()
    const { context, identities } = home.server
    await requireFactors(context, identities.organization_id)
    const refused = await approve('member', code)
    await context.pool.query(`update organizations set settings = settings - 'require_mfa'`)
    expect(codeOf(refused)).toBe('403 mfa_required')
    expect(await stateOf(key)).toBe('pending')
  })
})

test('another process decides the same login', async () => {
  const beside = await startBeside(home.server, {})
  try {
    const { code, key } = await begin()
    const { api_key: member } = home.server.identities.users.member
    expect((await beside.call(member, 'POST', '/terminal-logins/approve', { code })).status).toBe(200)
    expect(await stateOf(key)).toBe('approved')
  } finally {
    await beside.close()
  }
})

describe('the page', () => {
  test('shows code, machine, address and organization, and signs the terminal in with a form of this person', async () => {
    const { code, key } = await begin('build-7')
    const path = `/console/terminal?code=${code}`
    const text = await home.main(path, 'member')
    for (const part of [code, 'build-7', '127.0.0.1', 'Yes, sign it in']) expect(text).toContain(part)
    const more = encodeURIComponent(`${code.toLowerCase()} 0800-555 ✆`)
    const page = await home.main(`/console/terminal?code=${more}`, 'member')
    expect([page.includes('555'), page.includes('✆'), page.includes(code)]).toEqual([false, false, true])
    const fields = { code, action: 'approve', token: await home.tokenOf(path, 'member') }
    const cookie = await home.cookieOf('member')
    const foreign = await home.post(
      '/console/terminal',
      fields,
      { origin: 'https://elsewhere.example' },
      cookie,
    )
    expect([foreign.status, await stateOf(key)]).toEqual([403, 'pending'])
    expect((await home.post('/console/terminal', fields, {}, cookie)).status).toBe(303)
    expect(await stateOf(key)).toBe('approved')
    expect(await home.main(path, 'member')).toContain('The terminal is signed in')
  })

  test('a wrong code asks again, and without a session the page leads to the sign-in and back', async () => {
    expect(await home.main('/console/terminal?code=BBBB-BBBB', 'admin')).toContain('No terminal waits')
    const away = await home.get('/console/terminal?code=BBBB-BBBB', '')
    expect(away.headers.get('location')).toContain(encodeURIComponent('/console/terminal?code=BBBB-BBBB'))
  })
})
