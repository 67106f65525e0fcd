import { beforeEach, describe, expect, test } from '@jest/globals'
import { addKey, addOrganization, addPerson } from '../fixtures.ts'
import type { Answer, TestServer } from '../server.ts'
import { Agent, useAgentWorld, type AgentWorld } from './agent.ts'

/* POST /authorize: people and keys that may not ask, and questions that their organization does not allow. */

let server: TestServer
let world: AgentWorld
useAgentWorld((made) => ({ server } = world = made))

const join = (organizationId: string, userId: string) => {
  const statement = `insert into memberships (organization_id, user_id, role) values ($1, $2, 'member')`
  return server.context.pool.query(statement, [organizationId, userId])
}
const limitQuestions = (authorize_per_minute: number) => {
  const quotas = JSON.stringify({ authorize_per_minute, requests_per_minute: 100_000 })
  const statement = 'update organizations set quota_overrides = $2 where id = $1'
  return server.context.pool.query(statement, [world.organizationId, quotas])
}

describe('a person who may not ask gets a denial, not an error', () => {
  test('a viewer, one who has left, and one with another organization than the session’s', async () => {
    const viewer = await addPerson(server.context, world.organizationId, 'viewer')
    expect((await new Agent(server, viewer.key).ask('Read')).decision).toBe('deny')
    const agent = world.agent()
    const first = await agent.ask('Read')
    const elsewhere = { organization_id: (await addOrganization(server.context)).id }
    const wrong = await agent.ask('Read', {}, elsewhere)
    expect(wrong).toMatchObject({ decision: 'deny', reason: 'wrong organization' })
    expect(wrong.session_run_id).toBe(first.session_run_id)
    expect((await world.agent().ask('Read', {}, elsewhere)).decision).toBe('deny')
    await server.context.db.deleteFrom('memberships').where('user_id', '=', world.member.userId).execute()
    expect(await agent.ask('Read')).toMatchObject({ decision: 'deny', reason: 'not a member' })
  })

  test('a new session belongs to the organization it names, if its person is a member', async () => {
    const elsewhere = await addOrganization(server.context)
    await join(elsewhere.id, world.member.userId)
    const agent = world.agent()
    expect((await agent.ask('Read', {}, { organization_id: elsewhere.id })).decision).toBe('allow')
    expect((await agent.ask('Read')).decision).toBe('allow')
    expect((await agent.ask('Read', {}, { organization_id: world.organizationId })).decision).toBe('deny')
    const [session] = (await server.call(elsewhere.owner.key, 'GET', '/agent-sessions')).body.data
    expect(session.session_id).toBe(agent.session)
  })

  test('a revoked session stays revoked, with its pending approvals', async () => {
    await world.hold('Write')
    const agent = world.agent()
    const { approval_id } = await agent.ask('Write')
    const waiting = world.asMember('GET', `/authorize/approvals/${approval_id}?wait=30`)
    expect((await world.revoke(agent.session, { reason: 'gone wild' })).body).toMatchObject({
      session_id: agent.session,
      status: 'revoked',
      revoked_by: world.admin.userId,
      revoke_reason: 'gone wild',
    })
    expect((await waiting).body.status).toBe('cancelled')
    expect(await agent.ask('Read')).toMatchObject({ decision: 'deny', reason: 'session revoked' })
    await world.end(agent.session)
    expect((await agent.ask('Read')).decision).toBe('deny')
  })

  test('without a key it is 401, without the scope 403', async () => {
    const question = world.agent().question('Read')
    expect((await server.call(null, 'POST', '/authorize', question)).status).toBe(401)
    const { secret } = await addKey(server.context, world.organizationId, world.member.userId, ['runs:read'])
    expect((await server.call(secret, 'POST', '/authorize', question)).body.error.code).toBe('missing_scope')
  })
})

describe('an unreadable question', () => {
  const asked = { agent: { name: 'a', kind: 'b' }, session_id: 's', tool_name: 'T', tool_input: {} }
  const ask = (body: unknown) => world.asMember('POST', '/authorize', body)
  /** The text of a question about a payment to this number. */
  const payment = (number: string) =>
    `{"agent":{"name":"a","kind":"b"},"session_id":"s","tool_name":"mcp__bank__pay","tool_input":{"to":${number}}}`

  test.each<[string, unknown]>([
    ['no object', []],
    ['nothing', {}],
    ['an unknown field', { ...asked, x: 1 }],
    ['an input that is not an object', { ...asked, tool_input: 'x' }],
    ...[
      ...['Bash ', ' Bash', 'Bash\u00a0', 'Bash\u200b', 'B\u00adash', 'Ｂａｓｈ', '\u202ehsaB', 'Bash\u2028'],
      ...['Please sign in again', 'http://evil.example/login', 'Bash\u00a0x', 'x`y'],
    ].map((tool_name): [string, unknown] => [
      `a name that only looks like another: ${JSON.stringify(tool_name)}`,
      { ...asked, tool_name },
    ]),
    ['too deep an input', { tool_input: JSON.parse(`${'[{"a":'.repeat(70)}1${'}]'.repeat(70)}`) }],
  ])('is denied: %s', async (_, body) => {
    const denied = { decision: 'deny', reason: 'unreadable request' }
    expect(await ask(body)).toMatchObject({ status: 200, body: denied })
  })

  const fields = ['agent', 'session_id', 'tool_name', 'tool_input']
  const everyField = fields.map((field) => `\`${field}\` is missing`).join('; ')
  const blank = '`tool_name` must be a plain name without white space, `:`'
  test.each<[string, unknown, string]>([
    ['an empty body', undefined, everyField],
    ['an empty object', '{}', everyField],
    ['null', 'null', 'must be an object, not null'],
    ['a name with a blank', { ...asked, tool_name: 'sign in' }, blank],
    ['more than eight flaws', '{"a":1,"b":1,"c":1,"d":1,"e":1,"session_id":1}', '(and 1 more)'],
  ])('is told every field to change: %s', async (_, body, words) => {
    const explanation = expect.stringContaining(words)
    expect((await ask(body)).body).toMatchObject({ reason: 'unreadable request', explanation })
  })

  test.each(['9007199254740993', '-9007199254740993', '{"deep":[12345678901234567890]}'])(
    'has a whole number that would be rounded, so that its approval would cover neighbouring numbers: %s',
    async (number) => {
      const explanation = expect.stringContaining('give it as a text')
      const body = { decision: 'deny', reason: 'unreadable request', explanation }
      expect(await ask(payment(number))).toMatchObject({ status: 200, body })
    },
  )

  test('is none in which a number has another spelling: it is the same call', async () => {
    await world.hold('mcp__*')
    const { approval_id } = (await ask(payment('100'))).body
    for (const number of ['1e2', '100.0', '1.00E+2'])
      expect((await ask(payment(number))).body).toMatchObject({ approval_id })
    expect((await ask(payment('9007199254740991'))).body.approval_id).not.toBe(approval_id)
  })

  test('has a body over 4 MiB; a smaller one is decided', async () => {
    const agent = world.agent()
    const fits = await agent.ask('Write', { content: 'x'.repeat(3_500_000) })
    expect(fits.decision).toBe('allow')
    const big = await agent.send(agent.question('Write', { content: 'x'.repeat(4_300_000) }))
    expect([big.status, big.body.reason]).toEqual([200, 'unreadable request'])
  })

  test('has more than 20,000 values, on every route; fewer are decided', async () => {
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
    const told = await world.asMember('POST', '/authorize/observe', finished)
    expect([told.status, told.body.error.code]).toEqual([400, 'bad_request'])
    const event = { session_id: 's', hook_event_name: 'PreToolUse', tool_name: 'Write', tool_use_id: 'u' }
    const hooked = { ...event, tool_input: values(20_000) }
    const answer = await world.asMember('POST', '/hooks/claude-code', hooked)
    expect(answer.text).toContain('20000 values')
    expect(answer.text).toContain('"deny"')
  })

  test('of a member is in the audit log', async () => {
    await ask({ nothing: 1 })
    expect(await world.entries('agent_call.unreadable')).toHaveLength(1)
  })
})

describe('too many questions', () => {
  const reasonsOf = async (agent: Agent, count: number, more: object = {}) => {
    const reasons = []
    for (let n = 0; n < count; n += 1) reasons.push((await agent.ask('Read', {}, more)).reason)
    return reasons
  }

  test('are denied', async () => {
    await limitQuestions(2)
    expect((await reasonsOf(world.agent(), 4)).slice(2)).toEqual(['rate limited', 'rate limited'])
  })

  test('are denied also to a key of another organization, which may ask there', async () => {
    const { owner } = await addOrganization(server.context)
    await join(world.organizationId, owner.userId)
    await limitQuestions(3)
    const here = { organization_id: world.organizationId }
    const reasons = await reasonsOf(new Agent(server, owner.key), 5, here)
    expect(reasons.slice(3)).toEqual(['rate limited', 'rate limited'])
    expect(reasons.slice(0, 3)).not.toContain('rate limited')
    expect((await new Agent(server, owner.key).ask('Read')).reason).not.toBe('rate limited')
  })
})

describe('tool policies', () => {
  const command = { command: 'ls' }

  test('block a tool for the organization or a role, make it read-only, and apply at once', async () => {
    const [member, admin] = [world.agent(), new Agent(server, world.admin.key)]
    const change = (method: string, path: string, body?: object) =>
      world.change(method, `/tool-policies${path}`, body)
    await change('POST', '', { tool_name: 'Bash', allowed: false, role: 'member' })
    const blocked = { decision: 'deny', reason: 'tool blocked for role member' }
    expect(await member.ask('Bash', command)).toMatchObject(blocked)
    expect((await admin.ask('Bash', command)).decision).toBe('allow')
    const readOnly = { role: 'member', allowed: null, restrictions: { read_only: true } }
    await change('PATCH', '/Bash', readOnly)
    expect((await member.ask('Bash', command)).reason).toBe('tool is read-only for role member')
    await change('DELETE', '/Bash?role=member')
    expect((await member.ask('Bash', command)).decision).toBe('allow')
    await change('POST', '', { tool_name: 'Bash', allowed: false })
    expect((await admin.ask('Bash', command)).reason).toBe('tool blocked by the organization')
  })

  test('name one known tool', async () => {
    const path = `/organizations/${world.organizationId}/tool-policies`
    const post = (tool_name: string) =>
      server.call(world.owner.key, 'POST', path, { tool_name, allowed: false })
    const unknown = await post('bush')
    expect([unknown.status, unknown.body.error.code]).toEqual([422, 'validation_error'])
    expect(unknown.text).toContain('GET /tools')
    for (const name of ['mcp__x__*', 'mcp__x__send\u200b', 'mcp__x__send\n', 'mcp__ｘ__send', 'Bash '])
      expect([name, (await post(name)).status]).toEqual([name, 422])
    expect((await post('Bash')).status).toBe(201)
  })
})

/* If a key asks often, the service caches it instead of looking it up before each question (docs/decisions/0049). */
describe('a key that asks often', () => {
  let agent: Agent
  let keyId: string
  beforeEach(async () => {
    const key = await addKey(server.context, world.organizationId, world.member.userId, ['agents:authorize'])
    keyId = key.id
    agent = new Agent(server, key.secret)
  })

  const change = (values: object) =>
    server.context.db.updateTable('api_keys').set(values).where('id', '=', keyId).execute()
  /** Asks until the key is cached. All these questions are allowed. */
  const askOften = async () => {
    const answers = await Promise.all(Array.from({ length: 30 }, () => agent.ask('Read')))
    expect(new Set(answers.map(({ decision }) => decision))).toEqual(new Set(['allow']))
  }
  const ask = () => agent.send(agent.question('Read'))
  const hook = (input: object) =>
    server.call(agent.key, 'POST', '/hooks/claude-code', {
      ...{ hook_event_name: 'PreToolUse', session_id: agent.session, tool_name: 'Read', tool_input: input },
    })

  describe.each<[string, object, [number, string]]>([
    ['revoked', { revoked_at: new Date() }, [401, 'unauthenticated']],
    ['expired', { expires_at: new Date(Date.now() - 1) }, [401, 'unauthenticated']],
    ['given other scopes', { scopes: ['runs:read'] }, [403, 'missing_scope']],
  ])('and is %s between two of its questions', (_name, values, told) => {
    const said = ({ status, body }: Answer) => [status, body.error?.code]
    const entriesOf = async (type: string): Promise<number> => (await world.entries(type)).length

    test('gets the error with the next question', async () => {
      await askOften()
      await change(values)
      expect(said(await ask())).toEqual(told)
      expect(said(await hook({}))).toEqual(told)
      expect(await entriesOf('agent_call.decided')).toBeLessThanOrEqual(32)
    })

    test('learns and stores nothing with a question that is not decided', async () => {
      await askOften()
      await change(values)
      expect(said(await agent.send({}))).toEqual(told)
      expect(said(await hook([]))).toEqual(told)
      expect(await entriesOf('agent_call.unreadable')).toBe(0)
    })

    test('gets the error also where the organization is at its limit', async () => {
      await askOften()
      await limitQuestions(1)
      await change(values)
      for (let n = 0; n < 3; n += 1) expect(said(await ask())).toEqual(told)
    })
  })

  test('is allowed no question before it is looked up again', async () => {
    await askOften()
    await change({ revoked_at: new Date() })
    const answers = await Promise.all(Array.from({ length: 20 }, ask))
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 401))
  })

  test('may ask at once after it got the scope, or became valid again', async () => {
    for (const [lost, status, given] of [
      [{ scopes: ['runs:read'] }, 403, { scopes: ['agents:authorize'] }],
      [{ revoked_at: new Date() }, 401, { revoked_at: null }],
    ] as const) {
      await change(lost)
      expect((await ask()).status).toBe(status)
      await change(given)
      expect((await agent.ask('Read')).decision).toBe('allow')
    }
  })
})
