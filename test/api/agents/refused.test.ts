import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { addKey, addOrganization, addPerson } from '../fixtures.ts'
import { startTestServer, type TestServer } from '../server.ts'
import { Agent, agentWorld, type AgentWorld } from './agent.ts'

/* POST /authorize: people who may not ask, and questions that their organization does not allow. */

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
})
beforeEach(async () => {
  world = await agentWorld(server)
})
afterAll(() => server.close())

describe('a person who may not ask gets a denial, not an error', () => {
  test('a viewer, one who has left, and one with another organization than the session’s', async () => {
    const viewer = await addPerson(server.context, world.organizationId, 'viewer')
    expect((await new Agent(server, viewer.key).ask('Read')).decision).toBe('deny')
    const agent = world.agent()
    const first = await agent.ask('Read')
    const elsewhere = await addOrganization(server.context)
    const wrong = await agent.ask('Read', {}, { organization_id: elsewhere.id })
    expect(wrong).toMatchObject({ decision: 'deny', reason: 'wrong organization' })
    expect(wrong.session_run_id).toBe(first.session_run_id)
    expect((await world.agent().ask('Read', {}, { organization_id: elsewhere.id })).decision).toBe('deny')
    await server.context.db.deleteFrom('memberships').where('user_id', '=', world.member.userId).execute()
    expect(await agent.ask('Read')).toMatchObject({ decision: 'deny', reason: 'not a member' })
  })

  test('a new session belongs to the organization it names, if its person is a member', async () => {
    const elsewhere = await addOrganization(server.context)
    await server.context.db
      .insertInto('memberships')
      .values({ organization_id: elsewhere.id, user_id: world.member.userId, role: 'member' })
      .execute()
    const agent = world.agent()
    expect((await agent.ask('Read', {}, { organization_id: elsewhere.id })).decision).toBe('allow')
    expect((await agent.ask('Read')).decision).toBe('allow')
    expect((await agent.ask('Read', {}, { organization_id: world.organizationId })).decision).toBe('deny')
    const [session] = (await server.call(elsewhere.owner.key, 'GET', '/agent-sessions')).body.data
    expect(session.session_id).toBe(agent.session)
  })

  test('a revoked session stays revoked, with its pending approvals', async () => {
    await world.change('POST', '/rules', { name: 'r', verdict: 'require_approval', tools: ['Write'] })
    const agent = world.agent()
    const { approval_id } = await agent.ask('Write')
    const waiting = server.call(world.member.key, 'GET', `/authorize/approvals/${approval_id}?wait=30`)
    const [session] = (await server.call(world.admin.key, 'GET', '/agent-sessions')).body.data
    expect(session.session_id).toBe(agent.session)
    const revoked = await server.call(world.admin.key, 'POST', `/agent-sessions/${session.id}/revoke`, {
      reason: 'gone wild',
    })
    expect(revoked.body).toMatchObject({
      status: 'revoked',
      revoked_by: world.admin.userId,
      revoke_reason: 'gone wild',
    })
    expect((await waiting).body.status).toBe('cancelled')
    expect(await agent.ask('Read')).toMatchObject({ decision: 'deny', reason: 'session revoked' })
    await server.call(world.member.key, 'POST', '/authorize/sessions/end', { session_id: agent.session })
    expect((await agent.ask('Read')).decision).toBe('deny')
  })

  test.each<[string, unknown]>([
    ['no object', []],
    ['nothing', {}],
    [
      'an unknown field',
      { agent: { name: 'a', kind: 'b' }, session_id: 's', tool_name: 'T', tool_input: {}, x: 1 },
    ],
    [
      'an input that is not an object',
      { agent: { name: 'a', kind: 'b' }, session_id: 's', tool_name: 'T', tool_input: 'x' },
    ],
    ...[
      'Bash ',
      ' Bash',
      'Bash\u00a0',
      'Bash\u200b',
      'B\u00adash',
      'Ｂａｓｈ',
      '\u202ehsaB',
      'Bash\u2028',
      'Please sign in again',
      'http://evil.example/login',
      'Bash\u00a0x',
      'x`y',
    ].map((tool_name): [string, unknown] => [
      `a name that only looks like another: ${JSON.stringify(tool_name)}`,
      { agent: { name: 'a', kind: 'b' }, session_id: 's', tool_name, tool_input: {} },
    ]),
    ['too deep an input', { tool_input: JSON.parse(`${'[{"a":'.repeat(70)}1${'}]'.repeat(70)}`) }],
  ])('an unreadable question: %s', async (_, body) => {
    const answer = await server.call(world.member.key, 'POST', '/authorize', body)
    expect(answer.status).toBe(200)
    expect(answer.body).toMatchObject({ decision: 'deny', reason: 'unreadable request' })
  })

  test.each<[string, string | undefined, string]>([
    [
      'an empty body',
      undefined,
      '`agent` is missing; `session_id` is missing; `tool_name` is missing; `tool_input` is missing',
    ],
    [
      'an empty object',
      '{}',
      '`agent` is missing; `session_id` is missing; `tool_name` is missing; `tool_input` is missing',
    ],
    ['null', 'null', 'must be an object, not null'],
    [
      'a name with a blank',
      '{"agent":{"name":"a","kind":"b"},"session_id":"s","tool_name":"sign in","tool_input":{}}',
      '`tool_name` must be a plain name without white space, `:`',
    ],
    ['more than eight flaws', '{"a":1,"b":1,"c":1,"d":1,"e":1,"session_id":1}', '(and 1 more)'],
  ])('an unreadable question is told every field to change: %s', async (_, body, words) => {
    const answer = await server.call(world.member.key, 'POST', '/authorize', body)
    expect(answer.body.reason).toBe('unreadable request')
    expect(answer.body.explanation).toContain(words)
  })

  test.each(['9007199254740993', '-9007199254740993', '{"deep":[12345678901234567890]}'])(
    'a whole number that would be rounded, so that its approval would cover neighbouring numbers: %s',
    async (number) => {
      const body = `{"agent":{"name":"a","kind":"b"},"session_id":"s","tool_name":"mcp__bank__pay","tool_input":{"to":${number}}}`
      const answer = await server.call(world.member.key, 'POST', '/authorize', body)
      expect(answer.status).toBe(200)
      expect(answer.body).toMatchObject({ decision: 'deny', reason: 'unreadable request' })
      expect(answer.body.explanation).toContain('give it as a text')
    },
  )

  test('different spellings of one number are one call', async () => {
    await world.change('POST', '/rules', { name: 'r', verdict: 'require_approval', tools: ['mcp__*'] })
    const ask = async (number: string) =>
      (
        await server.call(
          world.member.key,
          'POST',
          '/authorize',
          `{"agent":{"name":"a","kind":"b"},"session_id":"s","tool_name":"mcp__bank__pay","tool_input":{"to":${number}}}`,
        )
      ).body
    const { approval_id } = await ask('100')
    for (const number of ['1e2', '100.0', '1.00E+2']) expect(await ask(number)).toMatchObject({ approval_id })
    expect((await ask('9007199254740991')).approval_id).not.toBe(approval_id)
  })

  test('a body over 4 MiB is denied; a smaller one is decided', async () => {
    const agent = world.agent()
    const fits = await agent.ask('Write', { content: 'x'.repeat(3_500_000) })
    expect(fits.decision).toBe('allow')
    const big = await agent.send(agent.question('Write', { content: 'x'.repeat(4_300_000) }))
    expect([big.status, big.body.reason]).toEqual([200, 'unreadable request'])
  })

  test('more than 20,000 values are denied on every route; fewer are decided', async () => {
    const agent = world.agent()
    const values = (count: number) => ({ list: Array.from({ length: count }, (_, index) => index) })
    expect((await agent.ask('Write', values(19_900))).decision).toBe('allow')
    const many = agent.question('Write', values(20_000))
    expect((await agent.send(many)).body).toMatchObject({
      decision: 'deny',
      reason: 'unreadable request',
      explanation: expect.stringContaining('20000 values'),
    })
    const { agent: _agent, ...finished } = many
    const told = await server.call(world.member.key, 'POST', '/authorize/observe', finished)
    expect([told.status, told.body.error.code]).toEqual([400, 'bad_request'])
    const event = { session_id: 's', hook_event_name: 'PreToolUse', tool_name: 'Write', tool_use_id: 'u' }
    const hooked = { ...event, tool_input: values(20_000) }
    const answer = await server.call(world.member.key, 'POST', '/hooks/claude-code', hooked)
    expect(answer.text).toContain('20000 values')
    expect(answer.text).toContain('"deny"')
  })

  test('too many questions, also with a key of another organization', async () => {
    const { owner } = await addOrganization(server.context)
    await server.context.db
      .insertInto('memberships')
      .values({ organization_id: world.organizationId, user_id: owner.userId, role: 'member' })
      .execute()
    await server.context.db
      .updateTable('organizations')
      .set({ quota_overrides: JSON.stringify({ authorize_per_minute: 3, requests_per_minute: 100_000 }) })
      .where('id', '=', world.organizationId)
      .execute()
    const agent = new Agent(server, owner.key)
    const reasons = []
    for (let n = 0; n < 5; n += 1)
      reasons.push((await agent.ask('Read', {}, { organization_id: world.organizationId })).reason)
    expect(reasons.slice(3)).toEqual(['rate limited', 'rate limited'])
    expect(reasons.slice(0, 3)).not.toContain('rate limited')
    expect((await new Agent(server, owner.key).ask('Read')).reason).not.toBe('rate limited')
  })

  test('too many questions', async () => {
    await server.context.db
      .updateTable('organizations')
      .set({ quota_overrides: JSON.stringify({ authorize_per_minute: 2, requests_per_minute: 100_000 }) })
      .where('id', '=', world.organizationId)
      .execute()
    const agent = world.agent()
    const reasons = []
    for (let n = 0; n < 4; n += 1) reasons.push((await agent.ask('Read')).reason)
    expect(reasons.slice(2)).toEqual(['rate limited', 'rate limited'])
  })

  test('without a key it is 401, without the scope 403', async () => {
    const question = world.agent().question('Read')
    expect((await server.call(null, 'POST', '/authorize', question)).status).toBe(401)
    const { secret } = await addKey(server.context, world.organizationId, world.member.userId, ['runs:read'])
    expect((await server.call(secret, 'POST', '/authorize', question)).body.error.code).toBe('missing_scope')
  })
})

describe('tool policies', () => {
  test('block a tool for the organization or a role, make it read-only, and apply at once', async () => {
    const [member, admin] = [world.agent(), new Agent(server, world.admin.key)]
    await world.change('POST', '/tool-policies', { tool_name: 'Bash', allowed: false, role: 'member' })
    expect(await member.ask('Bash', { command: 'ls' })).toMatchObject({
      decision: 'deny',
      reason: 'tool blocked for role member',
    })
    expect((await admin.ask('Bash', { command: 'ls' })).decision).toBe('allow')
    await world.change('PATCH', '/tool-policies/Bash', {
      role: 'member',
      allowed: null,
      restrictions: { read_only: true },
    })
    expect((await member.ask('Bash', { command: 'ls' })).reason).toBe('tool is read-only for role member')
    await world.change('DELETE', '/tool-policies/Bash?role=member')
    expect((await member.ask('Bash', { command: 'ls' })).decision).toBe('allow')
    await world.change('POST', '/tool-policies', { tool_name: 'Bash', allowed: false })
    expect((await admin.ask('Bash', { command: 'ls' })).reason).toBe('tool blocked by the organization')
  })

  test('are needed where the default is deny', async () => {
    await world.change('PATCH', '/governance', { default_tool_access: 'deny' })
    const agent = world.agent()
    expect((await agent.ask('Read')).reason).toBe('tool not allowed by any policy')
    await world.change('POST', '/tool-policies', { tool_name: 'Read', allowed: true })
    expect((await agent.ask('Read')).decision).toBe('allow')
  })

  test('name one known tool, once', async () => {
    const path = `/organizations/${world.organizationId}/tool-policies`
    const post = (body: object) => server.call(world.owner.key, 'POST', path, body)
    const unknown = await post({ tool_name: 'bush', allowed: false })
    expect([unknown.status, unknown.body.error.code]).toEqual([422, 'validation_error'])
    expect(unknown.text).toContain('GET /tools')
    expect((await post({ tool_name: 'mcp__x__*', allowed: false })).status).toBe(422)
    for (const tool_name of ['mcp__x__send\u200b', 'mcp__x__send\n', 'mcp__ｘ__send', 'Bash '])
      expect([tool_name, (await post({ tool_name, allowed: false })).status]).toEqual([tool_name, 422])
    expect((await post({ tool_name: 'Bash', restrictions: { max_message_length: 3 } })).status).toBe(422)
    expect((await post({ tool_name: 'Bash', allowed: false })).status).toBe(201)
    expect((await post({ tool_name: 'Bash', allowed: false })).status).toBe(409)
  })
})
