import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { aDefinition, addOrganization, aLabelRule, aRule } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

let server: TestServer
let organization: string
beforeAll(async () => {
  server = await startTestServer()
  organization = `/api/v1/organizations/${server.identities.organization_id}`
})
afterAll(() => server.close())

const call = (who: keyof TestServer['identities']['users'], method: string, path: string, body?: unknown) =>
  server.call(server.identities.users[who].api_key, method, path, body)

describe.each([
  ['rules', aRule],
  ['label-rules', aLabelRule],
])('%s', (path, input) => {
  test('are saved, read, replaced, patched and deleted', async () => {
    const all = `${organization}/${path}`
    const saved = await call('admin', 'POST', all, input)
    expect(saved.status).toBe(201)
    expect(saved.body).toMatchObject({ ...input, status: 'active' })
    const one = `${all}/${saved.body.id}`
    expect((await call('member', 'GET', one)).body).toEqual(saved.body)
    expect((await call('member', 'GET', all)).body).toEqual({ data: [saved.body], next_cursor: null })
    const replaced = await call('admin', 'PUT', one, { ...input, name: 'Other' })
    expect(replaced.body).toMatchObject({ id: saved.body.id, name: 'Other' })
    const patched = await call('admin', 'PATCH', one, { status: 'shadow' })
    expect(patched.body).toMatchObject({ name: 'Other', status: 'shadow' })
    const gone = await call('admin', 'DELETE', one)
    expect([gone.status, gone.text]).toEqual([204, ''])
    expect((await call('member', 'GET', one)).status).toBe(404)
  })
})

test('rule templates are offered, and none is active', async () => {
  const { data } = (await call('member', 'GET', '/rule-templates')).body
  expect(data.length).toBeGreaterThanOrEqual(4)
  expect((await call('member', 'GET', `${organization}/rules`)).body.data).toEqual([])
})

describe('governance', () => {
  test('an admin reads the settings, only an owner changes them', async () => {
    const before = (await call('admin', 'GET', `${organization}/governance`)).body
    const patch = { approvals_enabled: true, approval_required_from: 'high' }
    expect((await call('admin', 'PATCH', `${organization}/governance`, patch)).status).toBe(403)
    const after = await call('owner', 'PATCH', `${organization}/governance`, patch)
    expect(after.body).toEqual({ ...before, ...patch })
    const reset = await call('owner', 'PATCH', `${organization}/governance`, { approval_required_from: null })
    expect(reset.body.approval_required_from).toBeNull()
  })

  test.each([{ approval_threshold: 0 }, { approvals_enabled: 'yes' }, { category_flags: { PII: true } }])(
    '%j is refused',
    async (patch) => {
      expect((await call('owner', 'PATCH', `${organization}/governance`, patch)).status).toBe(422)
    },
  )
})

describe('audit', () => {
  test('is listed newest first: whole, by page and with filters', async () => {
    await call('member', 'PUT', '/memory/a', { value: 1 })
    await call('member', 'PUT', '/memory/b', { value: 2 })
    const all = (await call('admin', 'GET', `${organization}/governance/audit?per_page=200`)).body
    expect(all.total).toBe(all.events.length)
    expect(all.events.map((event: { seq: number }) => event.seq)).toEqual(
      Array.from({ length: all.total }, (_, index) => all.total - index),
    )
    const page = (await call('admin', 'GET', `${organization}/governance/audit?per_page=2&page=2`)).body
    expect(page).toEqual({ events: all.events.slice(2, 4), page: 2, per_page: 2, total: all.total })
    const beyond = (await call('admin', 'GET', `${organization}/governance/audit?page=1000000`)).body
    expect(beyond).toMatchObject({ events: [], total: all.total })
    const filter = async (query: string) =>
      (await call('admin', 'GET', `${organization}/governance/audit?${query}`)).body
    expect((await filter('event_type=memory.set')).total).toBe(2)
    const { user_id: member } = server.identities.users.member
    expect((await filter(`user_id=${member}&event_type=memory.set`)).total).toBe(2)
    expect((await filter('user_id=usr_x')).total).toBe(0)
    const newest = encodeURIComponent(all.events[0].timestamp)
    expect((await filter(`since=${newest}`)).events[0]).toEqual(all.events[0])
    expect((await filter(`until=${newest}`)).events).not.toContainEqual(all.events[0])
    expect((await filter('since=2999-01-01T00:00:00%2B02:00')).total).toBe(0)
  })

  test('verifies', async () => {
    const answer = await call('admin', 'GET', `${organization}/audit-events/verify`)
    expect(answer.body).toMatchObject({ valid: true, first_mismatch: null })
    expect(answer.body.entries).toBe(answer.body.head.seq)
  })
})

describe('workflows', () => {
  test('are saved, versioned, rolled back and deleted', async () => {
    const saved = await call('member', 'POST', '/workflows', { name: 'Report', definition: aDefinition })
    expect(saved.status).toBe(201)
    expect(saved.body).toMatchObject({ name: 'Report', description: '', version: 1 })
    const one = `/workflows/${saved.body.id}`
    await call('member', 'PUT', one, { definition: aDefinition, message: 'again' })
    const { versions } = (await call('viewer', 'GET', `${one}/versions`)).body
    expect(versions.map((version: { version: number }) => version.version)).toEqual([2, 1])
    expect((await call('admin', 'GET', `${one}/versions/1`)).body.definition.steps).toHaveLength(2)
    const back = await call('admin', 'POST', `${one}/versions/1/rollback`, { message: 'back' })
    expect(back.body).toMatchObject({ new_version: 3, rolled_back_from: 2 })
    expect((await call('viewer', 'GET', '/workflows')).body.data[0]).toMatchObject({
      id: saved.body.id,
      version: 3,
    })
    expect((await call('member', 'DELETE', one)).status).toBe(204)
    expect((await call('viewer', 'GET', `${one}/versions`)).status).toBe(404)
  })

  test('belong to the organization in `organization_id`, if the caller is a member there', async () => {
    const other = await addOrganization(server.context)
    const body = { name: 'x', definition: aDefinition, organization_id: other.id }
    expect((await call('owner', 'POST', '/workflows', body)).status).toBe(404)
    expect((await server.call(other.owner.key, 'POST', '/workflows', body)).body.organization_id).toBe(
      other.id,
    )
  })
})

describe('memory', () => {
  test('keeps a value with its labels until it is deleted', async () => {
    const path = `/memory/${encodeURIComponent('a key/with ünïcode')}`
    const set = await call('member', 'PUT', path, { value: { a: [1] }, labels: ['pii'] })
    expect(set.body).toMatchObject({ key: 'a key/with ünïcode', value: { a: [1] }, labels: ['pii'] })
    expect((await call('member', 'GET', path)).body).toEqual(set.body)
    expect((await call('member', 'DELETE', path)).status).toBe(204)
    expect((await call('member', 'GET', path)).status).toBe(404)
  })

  test.each([[{}], [{ value: 1, labels: ['Not A Slug'] }], [{ value: 'x'.repeat(1_000_000) }]])(
    'an invalid body is refused',
    async (body) => {
      expect((await call('member', 'PUT', '/memory/k', body)).status).toBe(422)
    },
  )
})

describe('tools', () => {
  test('are listed by name, page by page', async () => {
    const all = (await call('viewer', 'GET', '/tools')).body.data
    const names = all.map((tool: { name: string }) => tool.name)
    expect(names).toEqual([...names].sort((a, b) => (a < b ? -1 : 1)))
    const first = (await call('viewer', 'GET', '/tools?limit=1')).body
    const second = (await call('viewer', 'GET', `/tools?limit=1&cursor=${first.next_cursor}`)).body
    expect([...first.data, ...second.data]).toEqual(all.slice(0, 2))
  })

  test('show their side effect, limits and parameters', async () => {
    const tool = await call('viewer', 'GET', '/tools/mail_send')
    expect(tool.body).toMatchObject({
      name: 'mail_send',
      side_effect: 'egress',
      categories: ['external_comm'],
    })
    expect(tool.body.available).toBe(false)
    expect(tool.body.params).toMatchObject({ type: 'object', required: ['to', 'subject', 'text'] })
    expect((await call('viewer', 'GET', '/tools/constructor')).status).toBe(404)
  })

  test('show how a call is repeated, what an approval covers, and how long an attempt takes', async () => {
    const { body } = await call('viewer', 'GET', '/tools/github_comment')
    expect(body).toMatchObject({
      reversible: 'no',
      repeat: 'findable',
      precondition: { of: 'the title or state of the issue', check: 'before' },
      timeout_seconds: 60,
    })
    expect((await call('viewer', 'GET', '/tools/web_search')).body).toMatchObject({
      repeat: 'free',
      precondition: null,
      timeout_seconds: 90,
    })
  })
})

describe('API keys', () => {
  test('are made, narrowed, revoked and reactivated over the API', async () => {
    const made = await call('member', 'POST', '/api-keys', {
      name: 'ci',
      scopes: { 'runs:read': true, 'runs:write': false },
    })
    expect(made.status).toBe(201)
    expect(made.body.scopes).toEqual({ 'runs:read': true })
    const key = made.body.api_key as string
    expect((await server.call(key, 'GET', '/runs')).status).toBe(200)
    const one = `/api-keys/${made.body.id}`
    expect((await call('member', 'PATCH', one, { active: false })).status).toBe(200)
    expect((await server.call(key, 'GET', '/runs')).status).toBe(401)
    const back = await call('member', 'PATCH', one, { active: true, expires_at: '2999-01-01T00:00:00Z' })
    expect(back.body).toMatchObject({ active: true, expires_at: '2999-01-01T00:00:00.000Z' })
    expect((await server.call(key, 'GET', '/runs')).status).toBe(200)
    expect((await call('member', 'GET', '/api-keys')).text).not.toContain(key)
    expect((await call('member', 'DELETE', one)).status).toBe(204)
    expect((await server.call(key, 'GET', '/runs')).status).toBe(401)
    expect((await call('member', 'PATCH', one, { active: true })).body.error.code).toBe('conflict')
  })

  test.each([[['runs:everything']], [{ 'no:scope': true }], ['runs:read'], [{ 'runs:read': 'yes' }]])(
    'scopes %j are refused by name',
    async (scopes) => {
      const answer = await call('member', 'POST', '/api-keys', { name: 'x', scopes })
      expect(answer.status).toBe(422)
      expect(answer.body.error.details[0].path).toMatch(/^scopes/)
    },
  )
})
