import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { access, accessOf, splitKey } from '../../src/api/access.ts'
import { newId } from '../../src/contract/ids.ts'
import { readUsage } from '../../src/governance/limits/storage-counters.ts'
import { requestOf, validRequests, type GuardedKey } from './access-matrix/valid-requests.ts'
import { addPlace, type Place } from './access-matrix/place.ts'
import { World } from './access-matrix/world.ts'
import { agentWorld, type AgentWorld } from './agents/agent.ts'
import { addOrganization } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

/* Behaviour at the storage limits of an organization. */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server?.close())

const mebibyte = 1024 ** 2

/** Adds this many bytes to the organization's count of stored bytes. */
const keeps = (organizationId: string, bytes: number) =>
  server.context.pool.query(
    'update chain_head set stored_bytes = stored_bytes + $2 where organization_id = $1',
    [organizationId, bytes],
  )

describe('over `storage_mb` every route', () => {
  let place: Place
  beforeAll(async () => {
    const { id, owner } = await addOrganization(server.context)
    place = await addPlace(server, id, owner)
  })

  // Here, rules and memory values are replaced by values of the same size. Only larger values are refused; that is
  // tested below.
  const growing: readonly GuardedKey[] = [
    'POST /organizations/{id}/invitations',
    'POST /api-keys',
    'POST /workflows',
    'PUT /workflows/{id}',
    'POST /workflows/{id}/versions/{version}/rollback',
    'POST /workflow-registry/{id}/approve-template',
    'POST /workflow-registry/{id}/use',
    'POST /workflows/{id}/execute',
    'POST /organizations/{id}/rules',
    'POST /organizations/{id}/label-rules',
    'POST /organizations/{id}/tool-policies',
    'POST /organizations/{id}/role-policy-overrides',
    'POST /tools/{name}/connect',
    'POST /files',
    'POST /organizations/{id}/webhooks',
    'POST /organizations/{id}/webhooks/{webhook}/test',
  ]
  const keys = (Object.keys(access) as GuardedKey[]).filter(
    (key) => !accessOf(key).public && splitKey(key).method !== 'GET',
  )

  test.each(keys)('%s', async (key) => {
    const { prepare, restore, status } = validRequests[key]
    const world = new World(server, place, place.owner)
    const { path, body } = requestOf(key, place.organizationId, await prepare(world))
    await keeps(place.organizationId, 2e12)
    try {
      const answer = await server.call(place.owner.key, splitKey(key).method, path, body)
      if (growing.includes(key)) {
        expect(answer.body.error).toMatchObject({ code: 'quota_exceeded', details: [{ path: 'storage_mb' }] })
        expect(answer.status).toBe(429)
        expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
      } else if (key === 'POST /api-keys/{id}/confirm') {
        // Only a session may confirm a key, and this request is sent with a key.
        expect(answer.status).toBe(403)
      } else expect([key, answer.status, answer.text]).toEqual([key, status, answer.text])
    } finally {
      await keeps(place.organizationId, -2e12)
      await restore?.(world)
    }
  })

  // The table's report is about a known session. A report in an unknown session would store the session.
  test('a report in a new session', async () => {
    const body = { session_id: newId('session'), tool_name: 'Read', tool_input: {} }
    await keeps(place.organizationId, 2e12)
    try {
      const answer = await server.call(place.owner.key, 'POST', '/authorize/observe', body)
      expect(answer).toMatchObject({ status: 429, body: { error: { details: [{ path: 'storage_mb' }] } } })
    } finally {
      await keeps(place.organizationId, -2e12)
    }
  })
})

describe('an organization with little storage left', () => {
  let world: AgentWorld
  const limit = (limits: object) => world.change('PATCH', '/quota', limits)
  const start = async (): Promise<void> => {
    world = await agentWorld(server)
    await world.change('POST', '/rules', { name: 'hold', verdict: 'require_approval', tools: ['Write'] })
  }
  const usage = () => readUsage(server.context.db, world.organizationId)
  const kept = async (): Promise<number> => (await usage()).storage_mb * mebibyte
  const rows = async (table: 'decisions' | 'approvals' | 'audit_events'): Promise<number> => {
    const found = await server.context.db
      .selectFrom(table)
      .select((each) => each.fn.countAll<number>().as('count'))
      .where('organization_id', '=', world.organizationId)
      .executeTakeFirstOrThrow()
    return found.count
  }
  afterEach(() => limit({ storage_mb: 100, pending_approvals: null, rules: null }))

  test('stores no more than its limit of agents’ questions, however fast and large', async () => {
    await start()
    await limit({ storage_mb: 2 })
    const big = { file_path: 'a', content: 'x'.repeat(100 * 1024) }
    const agents = Array.from({ length: 8 }, () => world.agent())
    const answers = (
      await Promise.all(
        agents.map(async (agent, of) => {
          const given = []
          for (let each = 0; each < 10; each += 1)
            given.push(await agent.ask('Write', { ...big, n: `${of} ${each}` }))
          return given
        }),
      )
    ).flat()
    const denied = answers.filter(({ decision }) => decision === 'deny')
    expect(answers.filter(({ decision }) => decision === 'require_approval').length).toBeGreaterThan(5)
    expect(denied.length).toBeGreaterThan(30)
    for (const { explanation } of denied) expect(explanation).toContain('`storage_mb`')
    // Denials are stored while there is room, so the last denials of a batch may slightly exceed the limit.
    expect(await kept()).toBeLessThan(2.1 * mebibyte)
  })

  test('answers a question over its limit with a denial that is not stored; a raised limit applies at once', async () => {
    await start()
    const agent = world.agent()
    await agent.ask('Read', { file_path: 'a' })
    await keeps(world.organizationId, 3 * mebibyte)
    await limit({ storage_mb: 1 })
    await agent.ask('Read', { file_path: 'a' })
    const before = [await rows('decisions'), await rows('audit_events'), await kept()]
    for (let each = 0; each < 20; each += 1) {
      const answer = await agent.ask('Read', { file_path: `${each}` })
      expect(answer).toMatchObject({ decision: 'deny', reason: 'storage limit', session_run_id: '' })
      expect(answer.explanation).toContain('1 MiB')
    }
    expect([await rows('decisions'), await rows('audit_events'), await kept()]).toEqual(before)
    const audit = await world.change('GET', '/governance/audit?event_type=quota.exceeded')
    expect(audit.body.events).toHaveLength(1)
    expect(audit.body.events[0].metadata).toMatchObject({ limit: 'storage_mb', value: 1 })
    await limit({ storage_mb: 10 })
    expect((await agent.ask('Read', { file_path: 'b' })).decision).toBe('allow')
  })

  test('over `storage_mb` a memory value and a rule can be made smaller but not larger', async () => {
    await start()
    const send = (method: string, path: string, body: unknown) =>
      server.call(world.owner.key, method, path, body)
    const named = `organization_id=${world.organizationId}`
    const memory = (value: string, labels?: string[]) => send('PUT', `/memory/k?${named}`, { value, labels })
    const base = `/organizations/${world.organizationId}`
    const rule = { name: 'long', verdict: 'deny', tools: ['Bash', 'Read'] }
    const label = { name: 'long', tools: ['Bash', 'Read'], add_labels: ['pii'] }
    expect((await memory('x'.repeat(1_000), ['pii'])).status).toBe(200)
    const paths = []
    for (const [kind, body] of [
      ['rules', rule],
      ['label-rules', label],
    ] as const)
      paths.push([`${base}/${kind}/${(await send('POST', `${base}/${kind}`, body)).body.id}`, body] as const)
    await keeps(world.organizationId, 2e12)
    try {
      expect((await memory('x'.repeat(1_001))).status).toBe(429)
      expect((await memory('x'.repeat(1_000), ['internal', 'pii'])).status).toBe(429)
      expect((await memory('y'.repeat(1_000))).status).toBe(200)
      expect((await memory('x'.repeat(980), ['internal', 'pii'])).status).toBe(200)
      expect((await memory('x')).status).toBe(200)
      for (const [path, body] of paths) {
        const statuses = []
        for (const [method, change] of [
          ['PATCH', { tools: ['Bash', 'Read', 'Write'] }],
          ['PUT', { ...body, name: 'longer' }],
          ['PATCH', { name: 'gnol' }],
          ['PUT', { ...body, tools: ['Bash'] }],
          ['PATCH', { name: 'l' }],
          ['PATCH', { status: 'inactive' }],
        ] as const)
          statuses.push((await send(method, path, change)).status)
        expect([path, statuses]).toEqual([path, [429, 429, 200, 200, 200, 200]])
      }
    } finally {
      await keeps(world.organizationId, -2e12)
    }
  })

  test('over `storage_mb` settings and tool policies change, but not those that fill the audit log', async () => {
    await start()
    const base = `/organizations/${world.organizationId}`
    const send = async (method: string, path: string, body: unknown) =>
      (await server.call(world.owner.key, method, base + path, body)).status
    const many = (letter: string, count: number) => ({
      external_tools: Object.fromEntries(
        Array.from({ length: count }, (_, n) => [`mcp__${letter}__tool_${n}`, { side_effect: 'egress' }]),
      ),
    })
    const domains = (letter: string, count: number) => ({
      restrictions: { allowed_domains: Array.from({ length: count }, (_, n) => `${letter}${n}.example`) },
    })
    expect(await send('POST', '/tool-policies', { tool_name: 'mail_send', ...domains('a', 3) })).toBe(201)
    await keeps(world.organizationId, 2e12)
    try {
      expect(await send('PATCH', '/governance', many('a', 900))).toBe(429)
      expect(await send('PATCH', '/governance', many('a', 100))).toBe(200)
      expect(await send('PATCH', '/governance', { approval_threshold: 2 })).toBe(200)
      expect(await send('PATCH', '/tool-policies/mail_send', domains('a', 4))).toBe(429)
      expect(await send('PATCH', '/tool-policies/mail_send', domains('b', 3))).toBe(200)
      await keeps(world.organizationId, -2e12)
      expect(await send('PATCH', '/tool-policies/mail_send', domains('c', 1_000))).toBe(200)
      await keeps(world.organizationId, 2e12)
      expect(await send('PATCH', '/tool-policies/mail_send', domains('b', 1_000))).toBe(200)
      const long = domains('a'.repeat(50), 1_000)
      await keeps(world.organizationId, -2e12)
      expect(await send('PATCH', '/tool-policies/mail_send', long)).toBe(200)
      await keeps(world.organizationId, 2e12)
      expect(await send('PATCH', '/tool-policies/mail_send', long)).toBe(429)
      const before = await kept()
      expect(await send('PATCH', '/tool-policies/mail_send', { allowed: false })).toBe(200)
      expect((await kept()) - before).toBeLessThan(2_000)
    } finally {
      await keeps(world.organizationId, -2e12)
    }
  })

  test('denies a call exactly over `pending_approvals`, and holds one more after one is decided', async () => {
    await start()
    await limit({ pending_approvals: 5 })
    const agents = Array.from({ length: 9 }, () => world.agent())
    const answers = await Promise.all(agents.map((agent) => agent.ask('Write', { file_path: agent.session })))
    const held = answers.filter(({ decision }) => decision === 'require_approval')
    const denied = answers.filter(({ decision }) => decision === 'deny')
    expect([held.length, denied.length]).toEqual([5, 4])
    for (const answer of denied) {
      expect(answer.reason).toBe('approvals limit')
      expect(answer.explanation).toContain('`pending_approvals`')
    }
    // A repetition of the same call still waits for its own approval.
    const asked = agents[answers.indexOf(held[0])]
    expect(await asked?.ask('Write', { file_path: asked.session })).toMatchObject({
      decision: 'require_approval',
      approval_id: held[0].approval_id,
    })
    expect((await usage()).pending_approvals).toBe(5)
    await world.decide(held[0].approval_id, 'reject')
    expect((await usage()).pending_approvals).toBe(4)
    expect((await world.agent().ask('Write', { file_path: 'z' })).decision).toBe('require_approval')
    expect((await world.agent().ask('Write', { file_path: 'zz' })).decision).toBe('deny')
  })

  test('stores no more rules and label rules than `rules`, and can still change and delete them', async () => {
    await start()
    await limit({ rules: 2 })
    await world.change('POST', '/label-rules', { name: 'l', tools: ['Read'], add_labels: ['x'] })
    const path = `/organizations/${world.organizationId}/rules`
    const rule = { name: 'third', verdict: 'deny', tools: ['Bash'] }
    const refused = await server.call(world.owner.key, 'POST', path, rule)
    expect(refused.status).toBe(429)
    expect(refused.body.error.details).toEqual([{ path: 'rules', message: 'the limit is 2' }])
    const [first] = (await server.call(world.owner.key, 'GET', path)).body.data
    await world.change('PATCH', `/rules/${first.id}`, { status: 'shadow' })
    await world.change('DELETE', `/rules/${first.id}`)
    await world.change('POST', '/rules', rule)
  })

  test('shows its usage in its quota', async () => {
    await start()
    await world.agent().ask('Write', { file_path: 'a' })
    const { body } = await world.change('GET', '/quota')
    expect(body.usage).toMatchObject({ pending_approvals: 1, rules: 1, memory_mb: 0 })
    expect(body.usage.storage_mb).toBeGreaterThan(0)
    expect(body.usage.storage_mb).toBeLessThan(0.1)
  })
})
