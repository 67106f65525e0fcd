import { beforeAll, describe, expect, test } from '@jest/globals'
import { Browser } from '../browser.ts'
import { addKey, addOrganization, addPerson, aDefinition, sessionCookie } from '../fixtures.ts'
import type { TestServer } from '../server.ts'
import { codeOf, placesOf, useServer } from '../use-server.ts'

let server: TestServer
const { as, ours } = useServer((started) => (server = started))

/** The organization of the people of a first start. */
let home: string
/** Another organization. The member of the first one is a member there too. */
let elsewhere: Awaited<ReturnType<typeof addOrganization>>
let userId: string
beforeAll(async () => {
  home = server.identities.organization_id
  userId = server.identities.users.member.user_id
  elsewhere = await addOrganization(server.context)
  await join(elsewhere.id, userId, 'member')
})

const join = (organization_id: string, user_id: string, role: 'member' | 'owner') =>
  server.context.db.insertInto('memberships').values({ organization_id, user_id, role }).execute()

describe('a key of a person in two organizations', () => {
  test('works in both, with the person’s role there', async () => {
    const key = await addKey(server.context, elsewhere.id, userId, ['runs:read', 'rules:write'])
    for (const id of [home, elsewhere.id]) {
      expect((await server.call(key.secret, 'GET', `/runs?organization_id=${id}`)).status).toBe(200)
      expect(codeOf(await server.call(key.secret, 'POST', `/organizations/${id}/rules`, {}))).toBe(
        '403 insufficient_role',
      )
    }
  })

  test('once revoked, cannot be restored or widened by the other organization’s owner', async () => {
    const key = await addKey(server.context, elsewhere.id, userId, ['runs:read'])
    const one = `/api-keys/${key.id}`
    const reads = async () => (await server.call(key.secret, 'GET', `/runs?organization_id=${home}`)).status
    expect((await server.call(key.secret, 'GET', `/memory/x?organization_id=${home}`)).status).toBe(403)
    await server.context.pool.query('update api_keys set revoked_at = now() where id = $1', [key.id])
    const back = { active: true, scopes: ['runs:read', 'memory:read'] }
    expect(codeOf(await server.call(elsewhere.owner.key, 'PATCH', one, back))).toBe('403 insufficient_role')
    expect(await reads()).toBe(401)
  })

  test('can be revoked by that owner, for both', async () => {
    const key = await addKey(server.context, elsewhere.id, userId, ['runs:read'])
    expect((await server.call(elsewhere.owner.key, 'DELETE', `/api-keys/${key.id}`)).status).toBe(204)
    expect((await server.call(key.secret, 'GET', `/runs?organization_id=${home}`)).status).toBe(401)
  })
})

describe('a call that names two organizations', () => {
  const made = (query: string, body: object) => as('member', 'POST', `/workflows${query}`, body)
  const workflow = { name: 'W', definition: aDefinition }
  const named = (id: string) => ({ ...workflow, organization_id: id })

  test('is 422 and creates nothing, in either order', async () => {
    const count = async () =>
      (await server.context.pool.query('select count(*)::int as n from workflows')).rows[0].n
    const before = await count()
    for (const [query, body] of [
      [home, elsewhere.id],
      [elsewhere.id, home],
      [home, 'org_x'],
    ] as const) {
      const answer = await made(`?organization_id=${query}`, named(body))
      expect(codeOf(answer)).toBe('422 validation_error')
      expect(answer.body.error.details).toEqual([
        { path: 'organization_id', message: `\`${body}\` in the body, \`${query}\` in the query` },
      ])
    }
    expect(await count()).toBe(before)
  })

  test('applies to API keys too', async () => {
    const scopes = ['runs:read']
    const key = await addKey(server.context, home, userId, ['api_keys:*', ...scopes])
    const body = { name: 'k', scopes, organization_id: elsewhere.id }
    expect(codeOf(await server.call(key.secret, 'POST', `/api-keys?organization_id=${home}`, body))).toBe(
      '422 validation_error',
    )
  })

  test('comes after 404: an organization of others looks like a missing one', async () => {
    expect((await made('?organization_id=org_x', named(home))).status).toBe(404)
    expect((await as('owner', 'POST', '/workflows', named(elsewhere.id))).status).toBe(404)
  })

  test('an object in the path must belong to the named organization, or nothing happens', async () => {
    const by = elsewhere.owner.key
    await join(home, elsewhere.owner.userId, 'owner')
    const path = `/workflows/${(await server.call(by, 'POST', '/workflows', workflow)).body.id}`
    for (const [method, target, body] of [
      ['PUT', path, { name: 'X' }],
      ['GET', path, undefined],
      ['DELETE', path, undefined],
      ['POST', `${path}/execute`, { inputs: { to: 'a@acme.test' } }],
      ['POST', `/organizations/${elsewhere.id}/rules`, { name: 'R', verdict: 'deny', tools: ['mail_send'] }],
    ] as const) {
      const refused = await server.call(by, method, `${target}?organization_id=${home}`, body)
      expect([method, target, refused.status, ...placesOf(refused)]).toEqual([method, target, 422, 'organization_id']) // prettier-ignore
      expect((await server.call(by, method, `${target}?organization_id=org_x`, body)).status).toBe(422)
    }
    expect((await server.call(by, 'GET', path)).body.name).toBe('W')
    const leave = 'delete from memberships where organization_id = $1 and user_id = $2'
    await server.context.pool.query(leave, [home, elsewhere.owner.userId])
    // Objects of other organizations are not found, whatever organization the request names.
    expect((await as('viewer', 'GET', `${path}?organization_id=${home}`)).status).toBe(404)
  })

  test('the same organization in both is accepted, and so is either alone', async () => {
    const query = `?organization_id=${elsewhere.id}`
    for (const answer of [
      await made(query, named(elsewhere.id)),
      await made(query, workflow),
      await made('', named(elsewhere.id)),
    ])
      expect([answer.status, answer.body.organization_id]).toEqual([201, elsewhere.id])
  })
})

describe('the header of the organization', () => {
  let mine: string
  let userId: string
  let foreign: string
  beforeAll(async () => {
    const { id, owner } = await addOrganization(server.context)
    ;[mine, userId] = [id, owner.userId]
    foreign = (await addOrganization(server.context)).id
  })

  async function send(method: string, path: string, organization: string, body?: unknown, key?: string) {
    const headers = {
      cookie: await sessionCookie(server.context, userId),
      'x-organization-id': organization,
      ...(key === undefined ? {} : { 'idempotency-key': key }),
    }
    return new Browser(server).send(method, path, body, headers)
  }
  const rowsOf = async (table: string): Promise<number> => {
    const { rows } = await server.context.pool.query(
      `select count(*)::int as n from ${table} where organization_id = $1`,
      [foreign],
    )
    return rows[0].n
  }

  describe('an organization that is not theirs and one that does not exist get the same answer', () => {
    test.each([
      ['GET', '/me', undefined, 200],
      ['POST', '/organizations', { name: 'Mine' }, 201],
      ['POST', '/invitations/accept', { token: 'nonsense-nonsense' }, 404],
      ['POST', '/authorize/sessions/end', { session_id: 'none' }, 404],
      ['GET', '/runs', undefined, 404],
      ['POST', '/workflows', { name: 'W', definition: { steps: [] } }, 404],
    ] as const)('%s %s', async (method, path, body, status) => {
      for (const organization of [foreign, 'org_bogus', '', 'x'.repeat(500)]) {
        const plain = await send(method, path, organization, body)
        const kept = await send(method, path, organization, body, `${path}-${organization.slice(0, 20)}`)
        expect([organization, plain.status, kept.status]).toEqual([organization, status, status])
        if (status === 404) expect(plain.body.error.code).toBe('not_found')
        else expect(plain.text).not.toContain(foreign)
      }
      expect(await rowsOf('idempotency_keys')).toBe(0)
    })

    test('and agents’ questions store nothing there', async () => {
      const call = { session_id: 's', tool_name: 'Read', tool_input: {} }
      const before = await rowsOf('audit_events')
      const question = { ...call, agent: { name: 'a', kind: 'hook' } }
      expect((await send('POST', '/authorize', foreign, question)).status).toBe(200)
      await send('POST', '/authorize/observe', foreign, { ...call, session_id: 't' })
      expect([await rowsOf('agent_sessions'), await rowsOf('audit_events')]).toEqual([0, before])
    })
  })

  test('an idempotency key belongs to the caller, whatever organization the request names', async () => {
    const first = await send('POST', '/organizations', mine, { name: 'Once' }, 'same')
    const again = await send('POST', '/organizations', foreign, { name: 'Once' }, 'same')
    expect([again.status, again.text]).toEqual([201, first.text])
  })

  test('a person without any organization makes their first one with a key', async () => {
    const { userId: alone } = await addPerson(server.context, mine, 'viewer')
    await server.context.pool.query('delete from memberships where user_id = $1', [alone])
    const cookie = await sessionCookie(server.context, alone)
    const headers = { cookie, 'idempotency-key': 'first' }
    const answer = await new Browser(server).send('POST', '/organizations', { name: 'First' }, headers)
    expect([answer.status, answer.body.name]).toEqual([201, 'First'])
  })
})

describe('governance', () => {
  test('an admin reads the settings, only an owner changes them', async () => {
    const before = (await ours('admin', 'GET', '/governance')).body
    const patch = { approvals_enabled: true, approval_required_from: 'high' }
    expect((await ours('admin', 'PATCH', '/governance', patch)).status).toBe(403)
    const after = await ours('owner', 'PATCH', '/governance', patch)
    expect(after.body).toEqual({ ...before, ...patch })
    const reset = await ours('owner', 'PATCH', '/governance', { approval_required_from: null })
    expect(reset.body.approval_required_from).toBeNull()
  })

  test.each([{ approval_threshold: 0 }, { approvals_enabled: 'yes' }, { category_flags: { PII: true } }])(
    '%j is refused',
    async (patch) => {
      expect((await ours('owner', 'PATCH', '/governance', patch)).status).toBe(422)
    },
  )
})

describe('audit', () => {
  test('is listed newest first: whole, by page and with filters', async () => {
    await as('member', 'PUT', '/memory/a', { value: 1 })
    await as('member', 'PUT', '/memory/b', { value: 2 })
    const filter = async (query: string) => (await ours('admin', 'GET', `/governance/audit?${query}`)).body
    const all = await filter('per_page=200')
    expect(all.total).toBe(all.events.length)
    expect(all.events.map((event: { seq: number }) => event.seq)).toEqual(
      Array.from({ length: all.total }, (_, index) => all.total - index),
    )
    expect(await filter('per_page=2&page=2')).toEqual({
      events: all.events.slice(2, 4),
      names: expect.any(Object),
      page: 2,
      per_page: 2,
      total: all.total,
    })
    expect(await filter('page=1000000')).toMatchObject({ events: [], total: all.total })
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
    const answer = await ours('admin', 'GET', '/audit-events/verify')
    expect(answer.body).toMatchObject({ valid: true, first_mismatch: null })
    expect(answer.body.entries).toBe(answer.body.head.seq)
  })
})

describe('memory', () => {
  test('keeps a value with its labels until it is deleted', async () => {
    const path = `/memory/${encodeURIComponent('a key/with ünïcode')}`
    const set = await as('member', 'PUT', path, { value: { a: [1] }, labels: ['pii'] })
    expect(set.body).toMatchObject({ key: 'a key/with ünïcode', value: { a: [1] }, labels: ['pii'] })
    expect((await as('member', 'GET', path)).body).toEqual(set.body)
    expect((await as('member', 'DELETE', path)).status).toBe(204)
    expect((await as('member', 'GET', path)).status).toBe(404)
  })

  test.each([[{}], [{ value: 1, labels: ['Not A Slug'] }], [{ value: 'x'.repeat(1_000_000) }]])(
    'an invalid body is refused',
    async (body) => {
      expect((await as('member', 'PUT', '/memory/k', body)).status).toBe(422)
    },
  )
})

describe('tools', () => {
  test('are listed by name, page by page', async () => {
    const all = (await as('viewer', 'GET', '/tools')).body.data
    const names = all.map((tool: { name: string }) => tool.name)
    expect(names).toEqual([...names].sort((a, b) => (a < b ? -1 : 1)))
    const first = (await as('viewer', 'GET', '/tools?limit=1')).body
    const second = (await as('viewer', 'GET', `/tools?limit=1&cursor=${first.next_cursor}`)).body
    expect([...first.data, ...second.data]).toEqual(all.slice(0, 2))
  })

  test('show their side effect, limits and parameters', async () => {
    const tool = await as('viewer', 'GET', '/tools/mail_send')
    expect(tool.body).toMatchObject({
      name: 'mail_send',
      side_effect: 'egress',
      categories: ['external_comm'],
      available: false,
      params: { type: 'object', required: ['to', 'subject', 'text'] },
    })
    expect((await as('viewer', 'GET', '/tools/constructor')).status).toBe(404)
  })

  test('show how a call is repeated, what an approval covers, and how long an attempt takes', async () => {
    const { body } = await as('viewer', 'GET', '/tools/github_comment')
    expect(body).toMatchObject({
      reversible: 'no',
      repeat: 'findable',
      precondition: { of: 'the title or state of the issue', check: 'before' },
      timeout_seconds: 60,
    })
    expect((await as('viewer', 'GET', '/tools/web_search')).body).toMatchObject({
      repeat: 'free',
      precondition: null,
      timeout_seconds: 90,
    })
  })
})

describe('API keys', () => {
  test('are made, narrowed, revoked and reactivated over the API', async () => {
    const scopes = { 'runs:read': true, 'runs:write': false }
    const made = await as('member', 'POST', '/api-keys', { name: 'ci', scopes })
    expect(made.status).toBe(201)
    expect(made.body.scopes).toEqual({ 'runs:read': true })
    const key = made.body.api_key as string
    const reads = async () => (await server.call(key, 'GET', '/runs')).status
    expect(await reads()).toBe(200)
    const one = `/api-keys/${made.body.id}`
    expect((await as('member', 'PATCH', one, { active: false })).status).toBe(200)
    expect(await reads()).toBe(401)
    const back = await as('member', 'PATCH', one, { active: true, expires_at: '2999-01-01T00:00:00Z' })
    expect(back.body).toMatchObject({ active: true, expires_at: '2999-01-01T00:00:00.000Z' })
    expect(await reads()).toBe(200)
    expect((await as('member', 'GET', '/api-keys')).text).not.toContain(key)
    expect((await as('member', 'DELETE', one)).status).toBe(204)
    expect(await reads()).toBe(401)
    expect((await as('member', 'PATCH', one, { active: true })).body.error.code).toBe('conflict')
  })

  test.each([[['runs:everything']], [{ 'no:scope': true }], ['runs:read'], [{ 'runs:read': 'yes' }]])(
    'scopes %j are refused by name',
    async (scopes) => {
      const answer = await as('member', 'POST', '/api-keys', { name: 'x', scopes })
      expect([answer.status, ...placesOf(answer)]).toEqual([422, expect.stringMatching(/^scopes/)])
    },
  )
})
