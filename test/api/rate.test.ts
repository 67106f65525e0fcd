import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { addKey, addPerson, addOrganization } from './fixtures.ts'
import { startTestServer, type Answer, type TestServer } from './server.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server?.close())

test('a limit that an owner sets refuses the next request with 429, and the answer says when to try again', async () => {
  const { organization_id: id, users } = server.identities
  const call = (key: string | null, path = '/me') => server.call(key, 'GET', path)
  const first = await call(users.member.api_key)
  expect(first.headers.get('x-ratelimit-limit')).toBe('100000')
  expect(Number(first.headers.get('x-ratelimit-remaining'))).toBeLessThan(100_000)
  expect(Number(first.headers.get('x-ratelimit-reset'))).toBeGreaterThan(Date.now() / 1_000 - 5)
  const quota = { requests_per_day: 1 }
  await server.call(users.owner.api_key, 'PATCH', `/organizations/${id}/quota`, quota)
  const refused = await call(users.member.api_key)
  expect(refused.status).toBe(429)
  expect(refused.body.error).toMatchObject({
    code: 'rate_limited',
    details: [{ path: 'requests_per_day', message: 'the limit is 1' }],
  })
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(refused.headers.get('x-ratelimit-remaining')).toBe('0')
  const raised = await server.call(users.owner.api_key, 'PATCH', `/organizations/${id}/quota`, {
    requests_per_day: 1_000_000,
  })
  expect(raised.status).toBe(200)
  expect((await call(users.member.api_key)).status).toBe(200)
  await server.call(users.owner.api_key, 'PATCH', `/organizations/${id}/quota`, quota)
  // The limit refuses requests before any other check. Unknown callers and public routes do not count.
  const narrow = await addKey(server.context, id, users.member.user_id, ['rules:read'])
  expect((await call(narrow.secret, '/workflows')).status).toBe(429)
  expect((await call(null)).status).toBe(401)
  expect((await call(null, '/health')).headers.get('x-ratelimit-limit')).toBeNull()
})

const shown = ({ headers }: Answer) =>
  ['limit', 'remaining'].map((name) => headers.get(`x-ratelimit-${name}`))

test('agents’ reports have a separate limit, and are refused with 429', async () => {
  const { context } = server
  const { id } = await addOrganization(context)
  const { key } = await addPerson(context, id, 'member')
  const overrides = { authorize_per_minute: 2, requests_per_minute: 100, requests_per_day: 100 }
  await context.pool.query('update organizations set quota_overrides = $1 where id = $2', [overrides, id])
  const call = { session_id: 's', tool_name: 'Read', tool_input: {} }
  const asked = await server.call(key, 'POST', '/authorize', { agent: { name: 'a', kind: 'b' }, ...call })
  expect([asked.body.reason, ...shown(asked)]).toEqual(['no rule matched', '2', '1'])
  const hook = { hook_event_name: 'PreToolUse', ...call }
  expect(shown(await server.call(key, 'POST', '/hooks/claude-code?wait=0', hook))[0]).toBe('2')
  const told = []
  // Sends more requests than two minutes allow, because the minute may end in between.
  for (let nth = 0; nth < 5; nth += 1) told.push(await server.call(key, 'POST', '/authorize/observe', call))
  const refused = told.find(({ status }) => status === 429)
  expect(refused?.body.error).toMatchObject({
    code: 'rate_limited',
    details: [{ path: 'authorize_per_minute', message: 'the limit is 2' }],
  })
  expect((await server.call(key, 'GET', '/me')).status).toBe(200)
})

test('a removed person’s key uses up nothing of the organization where it was made', async () => {
  const { context } = server
  const { id, owner } = await addOrganization(context)
  const { id: other } = await addOrganization(context)
  const [elsewhere, nowhere] = [await addPerson(context, id, 'admin'), await addPerson(context, id, 'admin')]
  await context.pool.query(
    `insert into memberships (organization_id, user_id, role) values ($1, $2, 'viewer')`,
    [other, elsewhere.userId],
  )
  await server.call(owner.key, 'PATCH', `/organizations/${id}/quota`, { requests_per_day: 5_000 })
  const limitOf = async (key: string) =>
    (await server.call(key, 'GET', '/me')).headers.get('x-ratelimit-limit')
  for (const { key } of [elsewhere, nowhere]) expect(await limitOf(key)).toBe('5000')
  await context.pool.query('delete from memberships where organization_id = $1 and user_id <> $2', [
    id,
    owner.userId,
  ])
  const before = Number((await server.call(owner.key, 'GET', '/me')).headers.get('x-ratelimit-remaining'))
  // Requests of people from elsewhere count for their own organization. A person without an organization has a separate
  // count, with the limit of the smallest plan.
  for (let nth = 0; nth < 10; nth += 1) {
    await limitOf(elsewhere.key)
    await limitOf(nowhere.key)
  }
  const after = Number((await server.call(owner.key, 'GET', '/me')).headers.get('x-ratelimit-remaining'))
  expect(before - after).toBe(1)
  expect(await limitOf(nowhere.key)).toBe('60')
})

test('an owner’s quota changes are counted separately, up to 30 a minute; anybody else’s count as requests', async () => {
  const { context } = server
  const { id, owner } = await addOrganization(context)
  const admin = await addPerson(context, id, 'admin')
  const { secret: narrow } = await addKey(context, id, owner.userId, ['organizations:*'])
  const set = (overrides: object) =>
    context.pool.query('update organizations set quota_overrides = $1 where id = $2', [overrides, id])
  const patch = (key: string, body: unknown = {}) =>
    server.call(key, 'PATCH', `/organizations/${id}/quota`, body)
  // With this limit the organization can make no more requests, except an owner's changes of the quota.
  await set({ requests_per_day: 1 })
  await server.call(owner.key, 'GET', '/me')
  for (const key of [admin.key, narrow, owner.key])
    expect((await server.call(key, 'GET', '/me')).status).toBe(429)
  for (const key of [admin.key, narrow]) {
    const refused = await patch(key, { requests_per_day: 5_000 })
    expect([refused.status, refused.body.error.details[0].path]).toEqual([429, 'requests_per_day'])
  }
  const raised = await patch(owner.key, { requests_per_day: 5_000 })
  expect([raised.status, raised.headers.get('x-ratelimit-limit')]).toEqual([200, '30'])
  // While requests are left, the answers name the missing right, and each attempt counts as a request.
  const left = async () =>
    Number((await server.call(owner.key, 'GET', '/me')).headers.get('x-ratelimit-remaining'))
  const before = await left()
  expect((await patch(admin.key)).body.error.code).toBe('insufficient_role')
  expect((await patch(narrow)).body.error.code).toBe('missing_scope')
  for (let nth = 0; nth < 5; nth += 1) expect((await patch(owner.key)).status).toBe(200)
  expect(before - (await left())).toBe(3)
  // Sends more requests than two minutes allow, because the minute may end in between.
  const answers = []
  for (let nth = 0; nth < 65; nth += 1) answers.push(await patch(owner.key))
  const refused = answers.find(({ status }) => status === 429)
  expect(refused?.body.error).toMatchObject({
    code: 'rate_limited',
    details: [{ path: 'quota_changes_per_minute', message: 'the limit is 30' }],
  })
  expect(Number(refused?.headers.get('retry-after'))).toBeLessThanOrEqual(60)
})
