import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { type AuditDraft, chainStart, sealEntry } from '../../../src/governance/audit/entry.ts'
import { startTestServer, type TestServer } from '../server.ts'
import {
  addKey,
  addOrganization,
  addPerson,
  aDefinition,
  aLabelRule,
  aRule,
  sessionCookie,
} from '../fixtures.ts'
import { Browser } from '../browser.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server?.close())

let elsewhere: Awaited<ReturnType<typeof addOrganization>>
let ours: string
let userId: string
beforeAll(async () => {
  ours = server.identities.organization_id
  userId = server.identities.users.member.user_id
  elsewhere = await addOrganization(server.context)
  await server.context.db
    .insertInto('memberships')
    .values({ organization_id: elsewhere.id, user_id: userId, role: 'member' })
    .execute()
})

describe('a key of a person in two organizations', () => {
  test('works in both, with the person’s role there', async () => {
    const key = await addKey(server.context, elsewhere.id, userId, ['runs:read', 'rules:write'])
    for (const id of [ours, elsewhere.id]) {
      expect((await server.call(key.secret, 'GET', `/runs?organization_id=${id}`)).status).toBe(200)
      const rules = await server.call(key.secret, 'POST', `/organizations/${id}/rules`, {})
      expect(rules.body.error.code).toBe('insufficient_role')
    }
  })

  test('once revoked, cannot be restored or widened by the other organization’s owner', async () => {
    const key = await addKey(server.context, elsewhere.id, userId, ['runs:read'])
    const one = `/api-keys/${key.id}`
    const reads = async () => (await server.call(key.secret, 'GET', `/runs?organization_id=${ours}`)).status
    expect((await server.call(key.secret, 'GET', `/memory/x?organization_id=${ours}`)).status).toBe(403)
    await server.context.db
      .updateTable('api_keys')
      .set({ revoked_at: new Date() })
      .where('id', '=', key.id)
      .execute()
    const back = { active: true, scopes: ['runs:read', 'memory:read'] }
    const refused = await server.call(elsewhere.owner.key, 'PATCH', one, back)
    expect([refused.status, refused.body.error.code]).toEqual([403, 'insufficient_role'])
    expect(await reads()).toBe(401)
  })

  test('can be revoked by that owner, for both', async () => {
    const key = await addKey(server.context, elsewhere.id, userId, ['runs:read'])
    const revoked = await server.call(elsewhere.owner.key, 'DELETE', `/api-keys/${key.id}`)
    expect(revoked.status).toBe(204)
    expect((await server.call(key.secret, 'GET', `/runs?organization_id=${ours}`)).status).toBe(401)
  })
})

describe('a call that names two organizations', () => {
  const made = (query: string, body: object, path = '/workflows') =>
    server.call(server.identities.users.member.api_key, 'POST', `${path}${query}`, body)
  const workflow = { name: 'W', definition: aDefinition }
  const named = (id: string) => ({ ...workflow, organization_id: id })

  test('is 422 and creates nothing, in either order', async () => {
    const count = async () =>
      (await server.context.pool.query('select count(*)::int as n from workflows')).rows[0].n
    const before = await count()
    for (const [query, body] of [
      [ours, elsewhere.id],
      [elsewhere.id, ours],
      [ours, 'org_x'],
    ] as const) {
      const answer = await made(`?organization_id=${query}`, named(body))
      expect([answer.status, answer.body.error.code]).toEqual([422, 'validation_error'])
      expect(answer.body.error.details).toEqual([
        { path: 'organization_id', message: `\`${body}\` in the body, \`${query}\` in the query` },
      ])
    }
    expect(await count()).toBe(before)
  })

  test('applies to API keys too', async () => {
    const scopes = ['runs:read']
    const key = await addKey(server.context, ours, userId, ['api_keys:*', ...scopes])
    const body = { name: 'k', scopes, organization_id: elsewhere.id }
    const answer = await server.call(key.secret, 'POST', `/api-keys?organization_id=${ours}`, body)
    expect([answer.status, answer.body.error.code]).toEqual([422, 'validation_error'])
  })

  test('comes after 404: an organization of others looks like a missing one', async () => {
    expect((await made('?organization_id=org_x', named(ours))).status).toBe(404)
  })

  test('an object in the path must belong to the named organization, or nothing happens', async () => {
    const by = elsewhere.owner.key
    await server.context.db
      .insertInto('memberships')
      .values({ organization_id: ours, user_id: elsewhere.owner.userId, role: 'owner' })
      .execute()
    const made = await server.call(by, 'POST', '/workflows', { name: 'W', definition: aDefinition })
    const path = `/workflows/${made.body.id}`
    for (const [method, target, body] of [
      ['PUT', path, { name: 'X' }],
      ['GET', path, undefined],
      ['DELETE', path, undefined],
      ['POST', `${path}/execute`, { inputs: { to: 'a@acme.test' } }],
      ['POST', `/organizations/${elsewhere.id}/rules`, { name: 'R', verdict: 'deny', tools: ['mail_send'] }],
    ] as const) {
      const refused = await server.call(by, method, `${target}?organization_id=${ours}`, body)
      expect([method, target, refused.status, refused.body.error.details[0].path]).toEqual([
        method,
        target,
        422,
        'organization_id',
      ])
      const unknown = await server.call(by, method, `${target}?organization_id=org_x`, body)
      expect(unknown.status).toBe(422)
    }
    expect((await server.call(by, 'GET', path)).body.name).toBe('W')
    await server.context.db
      .deleteFrom('memberships')
      .where('organization_id', '=', ours)
      .where('user_id', '=', elsewhere.owner.userId)
      .execute()
    // Objects of other organizations are not found, whatever organization the request names.
    const theirs = await server.call(
      server.identities.users.viewer.api_key,
      'GET',
      `${path}?organization_id=${ours}`,
    )
    expect(theirs.status).toBe(404)
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
  let userId: string
  let home: string
  let foreign: string
  beforeAll(async () => {
    const one = await addOrganization(server.context)
    ;[home, userId] = [one.id, one.owner.userId]
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
      const question = {
        agent: { name: 'a', kind: 'hook' },
        session_id: 's',
        tool_name: 'Read',
        tool_input: {},
      }
      const before = await rowsOf('audit_events')
      const answer = await send('POST', '/authorize', foreign, question)
      expect(answer.status).toBe(200)
      await send('POST', '/authorize/observe', foreign, {
        session_id: 't',
        tool_name: 'Read',
        tool_input: {},
      })
      expect([await rowsOf('agent_sessions'), await rowsOf('audit_events')]).toEqual([0, before])
    })
  })

  test('an idempotency key belongs to the caller, whatever organization the request names', async () => {
    const first = await send('POST', '/organizations', home, { name: 'Once' }, 'same')
    const again = await send('POST', '/organizations', foreign, { name: 'Once' }, 'same')
    expect([again.status, again.text]).toEqual([201, first.text])
  })

  test('a person without any organization makes their first one with a key', async () => {
    const { userId: alone } = await addPerson(server.context, home, 'viewer')
    await server.context.pool.query('delete from memberships where user_id = $1', [alone])
    const cookie = await sessionCookie(server.context, alone)
    const answer = await new Browser(server).send(
      'POST',
      '/organizations',
      { name: 'First' },
      { cookie, 'idempotency-key': 'first' },
    )
    expect([answer.status, answer.body.name]).toEqual([201, 'First'])
  })
})

let organization: string
beforeAll(async () => {
  organization = `/api/v1/organizations/${server.identities.organization_id}`
})

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
    const reset = await call('owner', 'PATCH', `${organization}/governance`, {
      approval_required_from: null,
    })
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

describe('a foreign entry', () => {
  // With such an entry in its log, an organization saves nothing more, so these tests have their own server.
  let server: TestServer
  let organization: string
  let owner: string
  beforeAll(async () => {
    server = await startTestServer()
    organization = server.identities.organization_id
    owner = server.identities.users.owner.api_key
  })
  afterAll(() => server.close())

  const draft: AuditDraft = {
    eventType: 'rule.created',
    action: 'create',
    status: 'ok',
    actor: { type: 'system', id: 'nobody' },
    metadata: {},
  }

  /** Adds an entry that continues the chain. Everybody who has the application's database password could do this. */
  async function addEntry(): Promise<{ seq: number; id: string }> {
    const { pool } = server.context
    const last = await pool.query('select seq, hash from chain_head where organization_id = $1', [
      organization,
    ])
    const head = { seq: Number(last.rows[0]?.seq ?? chainStart.seq), hash: String(last.rows[0]?.hash) }
    const entry = sealEntry(organization, head, 1, new Date(), draft)
    await pool.query('insert into audit_events (canonical, hash) values ($1, $2)', [
      entry.canonical,
      entry.hash,
    ])
    return { seq: entry.seq, id: (JSON.parse(entry.canonical) as { id: string }).id }
  }

  describe('an entry that was added without the service', () => {
    test('stops the writes of its organization with 503 and one alarm, and is named by verify', async () => {
      const elsewhere = await addOrganization(server.context)
      const error = jest.spyOn(server.context.log, 'error')
      const added = await addEntry()
      const path = `/organizations/${organization}/governance`
      const save = () => server.call(owner, 'PATCH', path, { approval_threshold: 2 })
      for (const answer of [...(await Promise.all([save(), save(), save()])), await save()]) {
        expect(answer.status).toBe(503)
        expect(answer.body.error).toMatchObject({
          code: 'unavailable',
          message: expect.stringContaining('an operator must verify the log'),
        })
      }
      expect(error.mock.calls).toEqual([
        [{ organization_id: organization, seq: added.seq }, expect.stringContaining('ALARM')],
      ])
      error.mockRestore()
      const health = (await server.call(null, 'GET', '/health')).body
      expect(health).toMatchObject({ status: 'degraded', checks: { audit: 'alarm' } })
      const verified = await server.call(owner, 'GET', `/organizations/${organization}/audit-events/verify`)
      expect(verified.body).toMatchObject({
        valid: false,
        first_mismatch: { seq: added.seq, id: added.id, reason: 'foreign' },
      })
      const others = server.context.combiner.run(elsewhere.id, 'org.change', async (tx) => tx.append(draft))
      await expect(others).resolves.toBeUndefined()
    })
  })
})
