import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { splitKey } from '../../../src/api/route.ts'
import type { GuardedKey } from '../../../src/api/routes/index.ts'
import { newId } from '../../../src/contract/ids.ts'
import { readUsage } from '../../../src/governance/limits/storage-counters.ts'
import { decideSteps } from '../../../src/calls/runs/effect.ts'
import { recordOutcomes } from '../../../src/calls/runs/outcome.ts'
import { oneStep, opOf, outcomeOf, outputOf, runOf } from '../../governance/runs/engine-fixture.ts'
import type { Answer, TestServer } from '../server.ts'
import { guardedKeys, requestOf, validRequests } from '../access-matrix/valid-requests.ts'
import { addPlace, type Place } from '../access-matrix/place.ts'
import { World } from '../access-matrix/world.ts'
import { agentWorld, type AgentWorld } from '../agents/agent.ts'
import { addKey, addOrganization, addPerson } from '../fixtures.ts'
import { useServer } from '../use-server.ts'

let server: TestServer
const { as } = useServer((started) => (server = started))

const mebibyte = 1024 ** 2
const countOf = async (table: string, organizationId: string): Promise<number> => {
  const statement = `select count(*)::int as n from ${table} where organization_id = $1`
  return (await server.context.pool.query(statement, [organizationId])).rows[0].n
}

/** Adds this many bytes to the organization's count of stored bytes. */
const keeps = (organizationId: string, bytes: number) =>
  server.context.pool.query(
    'update chain_head set stored_bytes = stored_bytes + $2 where organization_id = $1',
    [organizationId, bytes],
  )
/** Does `work` while the organization is far over its limit. */
async function whileFull<T>(organizationId: string, work: () => Promise<T>): Promise<T> {
  await keeps(organizationId, 2e12)
  try {
    return await work()
  } finally {
    await keeps(organizationId, -2e12)
  }
}

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
    'POST /organizations/{id}/invite',
    'POST /organizations/{id}/service-accounts',
    'PUT /organizations/{id}/sign-in',
    'POST /organizations/{id}/scim-tokens',
    'POST /api-keys',
    'POST /workflows',
    'PUT /workflows/{id}',
    'POST /workflows/{id}/versions/{version}/rollback',
    'POST /workflow-registry/{id}/approve-template',
    'POST /workflow-registry/{id}/use',
    'POST /workflows/{id}/execute',
    'POST /runs/{id}/rerun',
    'POST /runs/rerun',
    'POST /terminal-logins/approve',
    'POST /organizations/{id}/rules',
    'POST /organizations/{id}/label-rules',
    'POST /organizations/{id}/tool-policies',
    'POST /organizations/{id}/role-policy-overrides',
    'POST /tools/{name}/connect',
    'POST /files',
    'POST /workflows/{id}/triggers',
    'POST /organizations/{id}/webhooks',
    'POST /organizations/{id}/webhooks/{webhook}/test',
  ]
  const keys = guardedKeys.filter((key) => splitKey(key).method !== 'GET')

  test.each(keys)('%s', async (key) => {
    const { prepare, restore, status } = validRequests[key]
    const world = new World(server, place, place.owner)
    const { path, body } = requestOf(key, place.organizationId, await prepare(world))
    const answer = await whileFull(place.organizationId, () =>
      server.call(place.owner.key, splitKey(key).method, path, body),
    )
    await restore?.(world)
    if (growing.includes(key)) {
      const error = { code: 'quota_exceeded', details: [{ path: 'storage_mb' }] }
      expect(answer).toMatchObject({ status: 429, body: { error } })
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    } else {
      // Only a session may confirm a key, and this request is sent with a key.
      const wanted = key === 'POST /api-keys/{id}/confirm' ? 403 : status
      expect([key, answer.status, answer.text]).toEqual([key, wanted, answer.text])
    }
  })

  // The table's report is about a known session. A report in an unknown session would store the session.
  test('a report in a new session', async () => {
    const body = { session_id: newId('session'), tool_name: 'Read', tool_input: {} }
    const answer = await whileFull(place.organizationId, () =>
      server.call(place.owner.key, 'POST', '/authorize/observe', body),
    )
    expect(answer).toMatchObject({ status: 429, body: { error: { details: [{ path: 'storage_mb' }] } } })
  })
})

/** A new world before each test, in which `Write` is held. */
function useHoldingWorld(use: (world: AgentWorld) => void): void {
  beforeEach(async () => {
    const world = await agentWorld(server)
    use(world)
    await world.change('POST', '/rules', { name: 'hold', verdict: 'require_approval', tools: ['Write'] })
  })
}

describe('an organization with little storage left', () => {
  let world: AgentWorld
  useHoldingWorld((made) => (world = made))
  const limit = (limits: object) => world.change('PATCH', '/quota', limits)
  const usage = () => readUsage(server.context.db, world.organizationId)
  const kept = async (): Promise<number> => (await usage()).storage_mb * mebibyte
  const send = async (method: string, path: string, body: unknown) =>
    (await server.call(world.owner.key, method, path, body)).status

  test('stores no more than its limit of agents’ questions, however fast and large', async () => {
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
    const agent = world.agent()
    await agent.ask('Read', { file_path: 'a' })
    await keeps(world.organizationId, 3 * mebibyte)
    await limit({ storage_mb: 1 })
    await agent.ask('Read', { file_path: 'a' })
    const state = async () => [
      ...(await Promise.all(
        ['decisions', 'audit_events'].map((each) => countOf(each, world.organizationId)),
      )),
      await kept(),
    ]
    const before = await state()
    for (let each = 0; each < 20; each += 1) {
      const answer = await agent.ask('Read', { file_path: `${each}` })
      expect(answer).toMatchObject({ decision: 'deny', reason: 'storage limit', session_run_id: '' })
      expect(answer.explanation).toContain('1 MiB')
    }
    expect(await state()).toEqual(before)
    const audit = await world.change('GET', '/governance/audit?event_type=quota.exceeded')
    expect(audit.body.events).toHaveLength(1)
    expect(audit.body.events[0].metadata).toMatchObject({ limit: 'storage_mb', value: 1 })
    await limit({ storage_mb: 10 })
    expect((await agent.ask('Read', { file_path: 'b' })).decision).toBe('allow')
  })

  test('over `storage_mb` a memory value and a rule can be made smaller but not larger', async () => {
    const memory = (value: string, labels?: string[]) =>
      send('PUT', `/memory/k?organization_id=${world.organizationId}`, { value, labels })
    const rule = { name: 'long', verdict: 'deny', tools: ['Bash', 'Read'] }
    const label = { name: 'long', tools: ['Bash', 'Read'], add_labels: ['pii'] }
    expect(await memory('x'.repeat(1_000), ['pii'])).toBe(200)
    const paths: (readonly [string, object])[] = []
    for (const [kind, body] of [
      ['/rules', rule],
      ['/label-rules', label],
    ] as const) {
      const { id } = (await world.change('POST', kind, body)).body
      paths.push([`/organizations/${world.organizationId}${kind}/${id}`, body] as const)
    }
    await whileFull(world.organizationId, async () => {
      for (const [value, labels, status] of [
        ['x'.repeat(1_001), undefined, 429],
        ['x'.repeat(1_000), ['internal', 'pii'], 429],
        ['y'.repeat(1_000), undefined, 200],
        ['x'.repeat(980), ['internal', 'pii'], 200],
        ['x', undefined, 200],
      ] as const)
        expect([value, labels, await memory(value, labels && [...labels])]).toEqual([value, labels, status])
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
          statuses.push(await send(method, path, change))
        expect([path, statuses]).toEqual([path, [429, 429, 200, 200, 200, 200]])
      }
    })
  })

  test('over `storage_mb` settings and tool policies change, but do not grow, and hardly fill the audit log', async () => {
    const { organizationId } = world
    const change = (path: string, body: unknown) =>
      send('PATCH', `/organizations/${organizationId}${path}`, body)
    const many = (letter: string, count: number) => ({
      external_tools: Object.fromEntries(
        Array.from({ length: count }, (_, n) => [`mcp__${letter}__tool_${n}`, { side_effect: 'egress' }]),
      ),
    })
    const domains = (letter: string, count: number) => ({
      restrictions: { allowed_domains: Array.from({ length: count }, (_, n) => `${letter}${n}.example`) },
    })
    const policy = (body: object) => change('/tool-policies/mail_send', body)
    await world.change('POST', '/tool-policies', { tool_name: 'mail_send', ...domains('a', 3) })
    await whileFull(organizationId, async () => {
      expect(await change('/governance', many('a', 900))).toBe(429)
      expect(await change('/governance', many('a', 100))).toBe(200)
      expect(await change('/governance', { approval_threshold: 2 })).toBe(200)
      expect(await policy(domains('a', 4))).toBe(429)
      expect(await policy(domains('b', 3))).toBe(200)
    })
    expect(await policy(domains('c', 1_000))).toBe(200)
    await whileFull(organizationId, async () => expect(await policy(domains('b', 1_000))).toBe(200))
    const long = domains('a'.repeat(50), 1_000)
    expect(await policy(long)).toBe(200)
    await whileFull(organizationId, async () => {
      const before = await kept()
      expect(await policy(long)).toBe(200)
      expect(await policy({ allowed: false })).toBe(200)
      expect((await kept()) - before).toBeLessThan(2_000)
    })
  })

  test('denies a call exactly over `pending_approvals`, and holds one more after one is decided', async () => {
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
    await world.agent().ask('Write', { file_path: 'a' })
    const { body } = await world.change('GET', '/quota')
    expect(body.usage).toMatchObject({ pending_approvals: 1, rules: 1, memory_mb: 0 })
    expect(body.usage.storage_mb).toBeGreaterThan(0)
    expect(body.usage.storage_mb).toBeLessThan(0.1)
  })
})

describe('the storage limit and steps', () => {
  let world: AgentWorld
  useHoldingWorld((made) => (world = made))
  const limit = (limits: object) => world.change('PATCH', '/quota', limits)
  const send = (path: string, body: unknown) => server.call(world.owner.key, 'POST', path, body)
  /** Saves a workflow of one step. Returns how to start it, the first run's step, and how to decide about that. */
  async function oneStepRun() {
    const path = `/workflows?organization_id=${world.organizationId}`
    const { id } = (await send(path, { name: 'w', definition: oneStep })).body
    const execute = async () => (await send(`/workflows/${id}/execute?wait=0`, {})).body
    const op = opOf((await execute()).execution_id)
    const decide = () => server.context.combiner.join(world.organizationId, decideSteps, op)
    return { execute, op, decide }
  }

  test('steps wait for storage room without using up attempts, and then continue', async () => {
    const { context } = server
    const { execute, op, decide } = await oneStepRun()
    await keeps(world.organizationId, 3 * mebibyte)
    await limit({ storage_mb: 2 })
    const entries = () => countOf('audit_events', world.organizationId)
    const before = await entries()
    for (let each = 0; each < 5; each += 1) expect(await decide()).toEqual({ go: false, state: 'no_room' })
    expect(await entries()).toBe(before)
    const noted = (await runOf(context, op.key.runId)).status_reason
    expect(noted).toBe('the run waits: the organization is at its limit of 2 MiB (`storage_mb`)')
    expect((await execute()).error).toMatchObject({ code: 'quota_exceeded' })
    await keeps(world.organizationId, -3 * mebibyte)
    expect(await decide()).toMatchObject({ go: true, attempt: 1, failures: 0 })

    // If there is no room for the output of a read, the read is repeated once there is room.
    const read = { tool: 'memory_get', sideEffect: 'read', params: {}, labels: [] } as const
    const call = { source: 'workflows', ...read } as const
    const output = outputOf(op.key, 'x'.repeat(3 * mebibyte))
    const outcome = outcomeOf(op, 1, { state: 'completed', output, labels: [], call })
    const end = (of: typeof outcome) => context.combiner.join(world.organizationId, recordOutcomes, of)
    expect(await end(outcome)).toBe('retry')
    expect(await decide()).toEqual({ go: false, state: 'no_room' })
    await limit({ storage_mb: 10 })
    expect(await decide()).toMatchObject({ go: true, attempt: 2, failures: 0 })
    expect(await end({ ...outcome, attempt: 2 })).toBe('completed')
  })

  test('a step that would be held over `pending_approvals` waits, and can still be cancelled', async () => {
    await world.change('POST', '/rules', { name: 'mails', verdict: 'require_approval', tools: ['mail_send'] })
    await world.agent().ask('Write', { file_path: 'a' })
    await limit({ pending_approvals: 1 })
    const { execute, op, decide } = await oneStepRun()
    expect(await decide()).toEqual({ go: false, state: 'no_room' })
    expect((await runOf(server.context, op.key.runId)).status_reason).toContain('`pending_approvals`')
    await limit({ pending_approvals: 2 })
    expect(await decide()).toMatchObject({ go: false, state: 'held', waitsFor: 'approval' })
    await world.change('PATCH', '/governance', { approval_required_from: 'low' })
    const error = { code: 'quota_exceeded', details: [{ path: 'pending_approvals' }] }
    expect((await execute()).error).toMatchObject(error)
    await send(`/runs/${op.key.runId}/cancel`, {})
    expect(await decide()).toMatchObject({ state: 'cancelled' })
  })
})

describe('limits of requests', () => {
  const leftOf = ({ headers }: Answer) => Number(headers.get('x-ratelimit-remaining'))
  const overrides = (id: string, values: object) =>
    server.context.pool.query('update organizations set quota_overrides = $1 where id = $2', [values, id])
  const rateLimited = (path: string, limit: number) => ({
    code: 'rate_limited',
    details: [{ path, message: `the limit is ${limit}` }],
  })

  test('a limit that an owner sets refuses the next request with 429, and the answer says when to try again', async () => {
    const { organization_id: id, users } = server.identities
    const me = () => as('member', 'GET', '/me')
    const set = (requests_per_day: number) =>
      as('owner', 'PATCH', `/organizations/${id}/quota`, { requests_per_day })
    const first = await me()
    expect(first.headers.get('x-ratelimit-limit')).toBe('100000')
    expect(leftOf(first)).toBeLessThan(100_000)
    expect(Number(first.headers.get('x-ratelimit-reset'))).toBeGreaterThan(Date.now() / 1_000 - 5)
    await set(1)
    const refused = await me()
    expect(refused.status).toBe(429)
    expect(refused.body.error).toMatchObject(rateLimited('requests_per_day', 1))
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(leftOf(refused)).toBe(0)
    expect((await set(1_000_000)).status).toBe(200)
    expect((await me()).status).toBe(200)
    await set(1)
    // The limit refuses requests before any other check. Unknown callers and public routes do not count.
    const narrow = await addKey(server.context, id, users.member.user_id, ['rules:read'])
    expect((await server.call(narrow.secret, 'GET', '/workflows')).status).toBe(429)
    expect((await server.call(null, 'GET', '/me')).status).toBe(401)
    expect((await server.call(null, 'GET', '/health')).headers.get('x-ratelimit-limit')).toBeNull()
  })

  const shown = ({ headers }: Answer) =>
    ['limit', 'remaining'].map((name) => headers.get(`x-ratelimit-${name}`))

  test('agents’ reports have a separate limit, and are refused with 429', async () => {
    const { context } = server
    const { id } = await addOrganization(context)
    const { key } = await addPerson(context, id, 'member')
    await overrides(id, { authorize_per_minute: 2, requests_per_minute: 100, requests_per_day: 100 })
    const call = { session_id: 's', tool_name: 'Read', tool_input: {} }
    const asked = await server.call(key, 'POST', '/authorize', { agent: { name: 'a', kind: 'b' }, ...call })
    expect([asked.body.reason, ...shown(asked)]).toEqual(['no rule matched', '2', '1'])
    const hook = { hook_event_name: 'PreToolUse', ...call }
    expect(shown(await server.call(key, 'POST', '/hooks/claude-code?wait=0', hook))[0]).toBe('2')
    const told = []
    // Sends more requests than two minutes allow, because the minute may end in between.
    for (let nth = 0; nth < 5; nth += 1) told.push(await server.call(key, 'POST', '/authorize/observe', call))
    const refused = told.find(({ status }) => status === 429)
    expect(refused?.body.error).toMatchObject(rateLimited('authorize_per_minute', 2))
    expect((await server.call(key, 'GET', '/me')).status).toBe(200)
  })

  test('a removed person’s key uses up nothing of the organization where it was made', async () => {
    const { context } = server
    const { id, owner } = await addOrganization(context)
    const { id: other } = await addOrganization(context)
    const elsewhere = await addPerson(context, id, 'admin')
    const nowhere = await addPerson(context, id, 'admin')
    const join = `insert into memberships (organization_id, user_id, role) values ($1, $2, 'viewer')`
    await context.pool.query(join, [other, elsewhere.userId])
    await server.call(owner.key, 'PATCH', `/organizations/${id}/quota`, { requests_per_day: 5_000 })
    const limitOf = async (key: string) =>
      (await server.call(key, 'GET', '/me')).headers.get('x-ratelimit-limit')
    for (const { key } of [elsewhere, nowhere]) expect(await limitOf(key)).toBe('5000')
    await context.pool.query('delete from memberships where organization_id = $1 and user_id <> $2', [
      id,
      owner.userId,
    ])
    const left = async () => leftOf(await server.call(owner.key, 'GET', '/me'))
    const before = await left()
    // Requests of people from elsewhere count for their own organization. A person without an organization has a separate
    // count, with the limit of the smallest plan.
    for (let nth = 0; nth < 10; nth += 1) {
      await limitOf(elsewhere.key)
      await limitOf(nowhere.key)
    }
    expect(before - (await left())).toBe(1)
    expect(await limitOf(nowhere.key)).toBe('60')
  })

  test('an owner’s quota changes are counted separately, up to 30 a minute; anybody else’s count as requests', async () => {
    const { context } = server
    const { id, owner } = await addOrganization(context)
    const admin = await addPerson(context, id, 'admin')
    const { secret: narrow } = await addKey(context, id, owner.userId, ['organizations:*'])
    const patch = (key: string, body: unknown = {}) =>
      server.call(key, 'PATCH', `/organizations/${id}/quota`, body)
    // With this limit the organization can make no more requests, except an owner's changes of the quota.
    await overrides(id, { requests_per_day: 1 })
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
    const left = async () => leftOf(await server.call(owner.key, 'GET', '/me'))
    const attempts = async () => {
      const before = await left()
      expect((await patch(admin.key)).body.error.code).toBe('insufficient_role')
      expect((await patch(narrow)).body.error.code).toBe('missing_scope')
      for (let nth = 0; nth < 5; nth += 1) expect((await patch(owner.key)).status).toBe(200)
      return before - (await left())
    }
    // If the minute ends in between, the count begins again, so it is taken once more.
    const counted = await attempts()
    expect(counted === 3 ? counted : await attempts()).toBe(3)
    // Sends more requests than two minutes allow, because the minute may end in between.
    const answers = []
    for (let nth = 0; nth < 65; nth += 1) answers.push(await patch(owner.key))
    const refused = answers.find(({ status }) => status === 429)
    expect(refused?.body.error).toMatchObject(rateLimited('quota_changes_per_minute', 30))
    expect(Number(refused?.headers.get('retry-after'))).toBeLessThanOrEqual(60)
  })
})
