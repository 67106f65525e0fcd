import { beforeEach, describe, expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import type { Role } from '../../../src/policy/types.ts'
import { Browser } from '../browser.ts'
import { addKey, addOrganization, addPerson, requireFactors, sessionCookie } from '../fixtures.ts'
import type { Answer, TestServer } from '../server.ts'
import { Agent, useAgentWorld, type AgentWorld } from './agent.ts'

/* Sessions of agents: their end, their new beginning, their receipts, their lists, and what is left of them when the
 * person leaves. */

let server: TestServer
let world: AgentWorld
useAgentWorld((made) => ({ server } = world = made))

const joinAs = (role: Role, userId = world.member.userId, organizationId = world.organizationId) =>
  server.context.db
    .insertInto('memberships')
    .values({ organization_id: organizationId, user_id: userId, role })
    .onConflict((row) => row.columns(['organization_id', 'user_id']).doUpdateSet({ role }))
    .execute()

describe('a session', () => {
  test('that has ended is not ended again, and one that never was is not found', async () => {
    const agent = world.agent()
    await agent.ask('Read')
    const first = (await world.end(agent.session)).body
    expect((await world.end(agent.session)).body).toEqual(first)
    expect(await world.entries('agent_session.ended')).toHaveLength(1)
    expect((await world.end(newId('session'))).status).toBe(404)
  })

  test('leaves in the audit log why it ended or was revoked', async () => {
    const agent = world.agent()
    await agent.ask('Read')
    await world.end(agent.session, { reason: 'the work is done' })
    await agent.ask('Read')
    await world.end(agent.session)
    await world.revoke(agent.session, { reason: 'gone wild' })
    const reasonsOf = async (type: string) =>
      (await world.entries(type)).map((each: { metadata: { reason: string } }) => each.metadata.reason)
    expect(await reasonsOf('agent_session.ended')).toEqual(['', 'the work is done'])
    expect(await reasonsOf('agent_session.revoked')).toEqual(['gone wild'])
  })

  test('has a receipt that shows an approved call once, with its approval, and a call that still waits', async () => {
    await world.hold('Write')
    const agent = world.agent()
    const held = await agent.ask('Write', { file_path: 'a' })
    // The agent asks again before anybody has approved.
    expect((await agent.ask('Write', { file_path: 'a' })).approval_id).toBe(held.approval_id)
    await world.decide(held.approval_id, 'approve')
    expect((await agent.ask('Write', { file_path: 'a' })).decision).toBe('allow')
    const waiting = await agent.ask('Write', { file_path: 'b' })
    const path = `/runs/${held.session_run_id}/authorization`
    const { decisions } = (await world.asMember('GET', path)).body
    expect(decisions).toMatchObject([
      {
        verdict: 'allow',
        rule_name: 'r',
        held_at: expect.any(String),
        approval: { id: held.approval_id, votes: [{ decision: 'approve' }] },
      },
      { verdict: 'require_approval', approval: { id: waiting.approval_id, votes: [] } },
    ])
    expect(Date.parse(decisions[0].held_at)).toBeLessThan(Date.parse(decisions[0].decided_at))
  })

  test('has a record that cannot be cancelled, and the answer names the route that stops the session', async () => {
    const { session_run_id: run } = await world.agent().ask('Read')
    for (const path of [`/runs/${run}/cancel`, `/executions/${run}/cancel`]) {
      const { status, body } = await world.asMember('POST', path)
      expect([status, body.error.code]).toEqual([409, 'bad_transition'])
      expect(body.error.message).toMatch(/POST \/agent-sessions\/ses_\w+\/revoke/)
    }
    const stranger = (await addOrganization(server.context)).owner
    expect((await server.call(stranger.key, 'POST', `/runs/${run}/cancel`)).status).toBe(404)
  })

  test('that has ended reopens with its labels; its receipt has every decision in order', async () => {
    const agent = world.agent()
    const { session_run_id } = await agent.ask('Read')
    const ended = (await world.end(agent.session)).body
    expect(ended).toEqual({ ok: true, session_run_id, cancelled_approvals: 0 })
    expect((await agent.ask('Write')).labels).toEqual(['internal'])
    const path = `/runs/${session_run_id}`
    const decisions = [
      { tool: 'Read', seq: 1 },
      { tool: 'Write', seq: 2 },
    ]
    const receipt = (await world.asMember('GET', `${path}/authorization`)).body
    expect(receipt).toMatchObject({ workflow_id: null, decisions })
    const record = { id: session_run_id, workflow_id: null, status: 'running', nodes_executed: 2 }
    expect((await world.asMember('GET', path)).body).toMatchObject(record)
    const stranger = (await addOrganization(server.context)).owner
    expect((await server.call(stranger.key, 'GET', path)).status).toBe(404)
  })
})

describe('with the end of a session', () => {
  beforeEach(() => world.hold('Write'))

  test('an unused approval ends: the same call asks anew', async () => {
    const [agent, other] = [world.agent(), world.agent()]
    const write = (of = agent, file_path = '/a') => of.ask('Write', { file_path })
    const [given, elsewhere] = [(await write()).approval_id, (await write(other)).approval_id]
    for (const id of [given, elsewhere]) await world.decide(id, 'approve')
    const { approval_id: waits } = await write(agent, '/b')
    expect((await world.end(agent.session)).body).toMatchObject({ ok: true, cancelled_approvals: 2 })
    expect(await world.approval(given)).toMatchObject({ status: 'cancelled', used_at: null })
    expect((await world.approval(waits)).status).toBe('cancelled')
    const anew = await write()
    expect(anew.decision).toBe('require_approval')
    expect([given, waits]).not.toContain(anew.approval_id)
    expect((await write(other)).decision).toBe('allow')
  })

  test('a used, rejected or withdrawn approval keeps its status', async () => {
    const agent = world.agent()
    const write = (file_path: string) => agent.ask('Write', { file_path })
    const { approval_id: used } = await write('used')
    const { approval_id: rejected } = await write('rejected')
    const { approval_id: withdrawn } = await write('withdrawn')
    await world.decide(used, 'approve')
    expect((await write('used')).decision).toBe('allow')
    await world.decide(rejected, 'reject')
    await server.call(agent.key, 'POST', `/authorize/approvals/${withdrawn}/cancel`, {})
    expect((await world.end(agent.session)).body.cancelled_approvals).toBe(0)
    const usedOne = { status: 'approved', used_at: expect.any(String) }
    expect(await world.approval(used)).toMatchObject(usedOne)
    expect((await world.approval(rejected)).status).toBe('rejected')
    expect((await write('rejected')).decision).toBe('deny')
  })
})

describe('the list of sessions', () => {
  /** Another organization with one agent session, in which the person has the role. */
  async function elsewhere(userId: string, role: Role) {
    const { id } = await addOrganization(server.context)
    await joinAs(role, userId, id)
    const stranger = await addPerson(server.context, id, 'member')
    const question = world.agent().question('Read')
    await server.call(stranger.key, 'POST', '/authorize', question)
    return { id, session: question.session_id }
  }
  /** A session of the world, before which others may be listed. */
  async function ours(): Promise<string> {
    const agent = world.agent()
    await agent.ask('Read')
    return agent.session
  }
  const listed = ({ status, body }: Answer) => [
    status,
    body.data?.map((each: { session_id: string }) => each.session_id) ?? body.error.code,
  ]
  const sessionsOf = async (key: string, query = '') =>
    listed(await server.call(key, 'GET', `/agent-sessions${query}`))

  test('without a named organization has those of each where the role suffices, newest first, in pages', async () => {
    const here = await ours()
    const asAdmin = await elsewhere(world.admin.userId, 'admin')
    const asMember = await elsewhere(world.admin.userId, 'member')
    await elsewhere(world.member.userId, 'owner')
    const { key } = world.admin
    expect(await sessionsOf(key)).toEqual([200, [asAdmin.session, here]])
    const first = await server.call(key, 'GET', '/agent-sessions?limit=1')
    expect(first.body.data).toMatchObject([{ session_id: asAdmin.session, organization_id: asAdmin.id }])
    expect(await sessionsOf(key, `?limit=1&cursor=${first.body.next_cursor}`)).toEqual([200, [here]])
    expect(await sessionsOf(key, `?organization_id=${world.organizationId}`)).toEqual([200, [here]])
    expect(await sessionsOf(key, `?organization_id=${asMember.id}`)).toEqual([200, []])
    expect(await sessionsOf(key, `?session_id=${here}`)).toEqual([200, [here]])
  })

  test('a member sees and revokes the sessions of their own agents alone', async () => {
    const [own, agent] = [await ours(), world.agent()]
    const stranger = await addPerson(server.context, world.organizationId, 'member')
    await server.call(stranger.key, 'POST', '/authorize', agent.question('Read'))
    const { key } = world.member
    expect(await sessionsOf(key)).toEqual([200, [own]])
    expect(await sessionsOf(key, `?user_id=${stranger.userId}`)).toEqual([200, []])
    const { data } = (await server.call(world.admin.key, 'GET', '/agent-sessions')).body
    const idOf = (session: string): string =>
      data.find((each: { session_id: string }) => each.session_id === session).id
    const revoke = (id: string) =>
      server.call(key, 'POST', `/agent-sessions/${id}/revoke`, { reason: 'lost' })
    expect(await server.call(key, 'GET', `/agent-sessions/${idOf(agent.session)}`)).toMatchObject({
      status: 404,
    })
    expect(await revoke(idOf(agent.session))).toMatchObject({ status: 404 })
    expect(await server.call(key, 'GET', `/agent-sessions/${idOf(own)}`)).toMatchObject({ status: 200 })
    expect((await revoke(idOf(own))).body).toMatchObject({
      status: 'revoked',
      revoked_by: world.member.userId,
    })
  })

  test('needs the role in one organization of a signed-in person; a named one is listed alone', async () => {
    const { userId } = world.member
    const here = await ours()
    const cookie = await sessionCookie(server.context, userId)
    const signedIn = async (headers: Record<string, string> = {}) =>
      listed(await new Browser(server).send('GET', '/agent-sessions', undefined, { cookie, ...headers }))
    expect(await signedIn()).toEqual([200, [here]])
    const [first, second] = [await elsewhere(userId, 'admin'), await elsewhere(userId, 'owner')]
    expect(await signedIn()).toEqual([200, [second.session, first.session, here]])
    expect(await signedIn({ 'x-organization-id': first.id })).toEqual([200, [first.session]])
    expect(await signedIn({ 'x-organization-id': world.organizationId })).toEqual([200, [here]])
  })

  test('needs the role of a key in its own organization', async () => {
    const { userId } = world.member
    await elsewhere(userId, 'owner')
    const { secret } = await addKey(server.context, world.organizationId, userId, ['agents:read'])
    await world.change('PATCH', `/members/${userId}`, { role: 'viewer' })
    expect(await sessionsOf(secret)).toEqual([403, 'insufficient_role'])
  })

  test('leaves out an organization whose second factor is missing; named, it is refused', async () => {
    const here = await ours()
    const strict = await elsewhere(world.admin.userId, 'admin')
    await requireFactors(server.context, strict.id)
    expect(await sessionsOf(world.admin.key)).toEqual([200, [here]])
    expect(await sessionsOf(world.admin.key, `?organization_id=${strict.id}`)).toEqual([403, 'mfa_required'])
  })
})

/** The numbers of all rows that a spammer could add. */
async function written(): Promise<unknown> {
  const { rows } = await server.context.pool.query(
    `select (select count(*) from audit_events where organization_id = $1) as entries,
       (select count(*) from agent_sessions where organization_id = $1) as sessions,
       (select count(*) from decisions where organization_id = $1) as decisions,
       (select count(*) from agent_observations o join decisions d on d.id = o.decision_id
        where d.organization_id = $1) as observed`,
    [world.organizationId],
  )
  return rows[0]
}

const changeRole = (role: Role) => world.change('PATCH', `/members/${world.member.userId}`, { role })
const remove = () => world.change('DELETE', `/members/${world.member.userId}`)

describe.each([
  ['who was removed', remove, [404, 'not_found'], 'not a member'],
  ['who is a viewer now', () => changeRole('viewer'), [403, 'insufficient_role'], 'role may not ask'],
] as const)('a person %s', (_who, leave, refusal, reason) => {
  test('writes nothing with reports of allowed and never allowed calls, nor with unreadable questions', async () => {
    const [agent, other] = [world.agent(), world.agent()]
    const named = agent.question('Edit', { file_path: '/a' })
    const { tool_use_id: _, ...nameless } = agent.question('Edit', { file_path: '/b' })
    for (const question of [named, nameless]) expect((await agent.send(question)).body.decision).toBe('allow')
    await leave()
    const before = await written()
    const body = { reason: 'unreadable request' }
    expect(await world.asMember('POST', '/authorize', { nothing: 1 })).toMatchObject({ status: 200, body })
    const asked = { session_id: agent.session, tool_name: 'Edit' }
    for (const report of [
      { ...asked, tool_input: named.tool_input, tool_use_id: named.tool_use_id },
      { ...asked, tool_input: nameless.tool_input },
      { ...asked, tool_input: { file_path: '/c' } },
      { session_id: other.session, tool_name: 'Edit', tool_input: {} },
    ]) {
      const { status, body } = await world.asMember('POST', '/authorize/observe', report)
      expect([status, body.error?.code]).toEqual(refusal)
    }
    expect(await written()).toEqual(before)
  })

  test('ends no session, and neither reads nor withdraws its approvals', async () => {
    await world.hold('Write')
    const agent = world.agent()
    const { approval_id } = await agent.ask('Write')
    await leave()
    const before = await written()
    for (const [method, path, body] of [
      ['GET', `/authorize/approvals/${approval_id}`],
      ['POST', `/authorize/approvals/${approval_id}/cancel`, {}],
      ['POST', '/authorize/sessions/end', { session_id: agent.session }],
    ] as const) {
      const answer = await world.asMember(method, path, body)
      expect([path, answer.status, answer.body.error?.code]).toEqual([path, ...refusal])
    }
    expect(await written()).toEqual(before)
  })

  test('has ended sessions, which later questions do not open again', async () => {
    await world.hold('Write')
    const [agent, ended, revoked] = [world.agent(), world.agent(), world.agent()]
    const { approval_id } = await agent.ask('Write')
    for (const each of [ended, revoked]) await each.ask('Read')
    await world.end(ended.session)
    const [{ ended_at: endedAt }] = await world.sessions(ended.session)
    await world.revoke(revoked.session)
    await leave()
    const [session] = await world.sessions(agent.session)
    expect([session.status, session.ended_at]).toEqual(['ended', expect.any(String)])
    expect((await world.approval(approval_id)).status).toBe('cancelled')
    expect(await world.sessions(ended.session)).toMatchObject([{ status: 'ended', ended_at: endedAt }])
    expect(await world.sessions(revoked.session)).toMatchObject([{ status: 'revoked' }])

    const denied = await agent.ask('Read')
    expect(denied).toMatchObject({ decision: 'deny', reason, session_run_id: session.session_run_id })
    expect(await world.sessions(agent.session)).toMatchObject([{ status: 'ended', decisions: { deny: 1 } }])

    await joinAs('member')
    expect((await agent.ask('Read')).decision).toBe('allow')
    expect(await world.sessions(agent.session)).toMatchObject([{ status: 'live', ended_at: null }])
  })
})

test('a person who has left opens no session', async () => {
  await remove()
  const before = await written()
  const denied = { decision: 'deny', reason: 'not a member', session_run_id: '' }
  expect(await world.agent().ask('Read')).toMatchObject(denied)
  expect(await written()).toEqual(before)
})

test('a new session of a viewer is never live, until the person may use agents again', async () => {
  await changeRole('viewer')
  const agent = world.agent()
  expect(await agent.ask('Read')).toMatchObject({ decision: 'deny', reason: 'role may not ask' })
  const ended = { status: 'ended', ended_at: expect.any(String), decisions: { deny: 1 } }
  expect(await world.sessions()).toMatchObject([{ session_id: agent.session, ...ended }])
  await changeRole('member')
  expect((await agent.ask('Read')).decision).toBe('allow')
  const live = [{ session_id: agent.session, status: 'live', ended_at: null }]
  expect(await world.sessions()).toMatchObject(live)
  // Another role that may use agents ends no session.
  await changeRole('admin')
  expect(await world.sessions()).toMatchObject(live)
})

test.each(['removed', 'left'])('a person’s pending approvals are withdrawn with them: %s', async (how) => {
  await world.hold('Write')
  const [agent, second] = [world.agent(), world.agent()]
  const waits = (await agent.ask('Write')).approval_id
  const given = (await second.ask('Write')).approval_id
  await world.decide(given, 'approve')
  const asked = await world.asAdmin('POST', '/authorize', agent.question('Write'))
  if (how === 'removed') await remove()
  else {
    const path = `/organizations/${world.organizationId}/members/${world.member.userId}`
    expect((await world.asMember('DELETE', path)).status).toBeLessThan(300)
  }
  const approvals = await Promise.all([waits, given, asked.body.approval_id].map(world.approval))
  expect(approvals.map(({ status }) => status)).toEqual(['cancelled', 'cancelled', 'pending'])
  expect((await world.decide(waits, 'approve')).body.error.code).toBe('approval_already_decided')
  const [entry] = await world.entries(`member.${how}`)
  const left = { member_id: world.member.userId, ended_sessions: 2, cancelled_approvals: 2 }
  expect(entry.metadata).toMatchObject(left)

  // After the person has come back, the agent asks again.
  await joinAs('member')
  const anew = await second.ask('Write')
  expect(anew.decision).toBe('require_approval')
  expect(anew.approval_id).not.toBe(given)
})

/* POST /authorize: people and keys that may not ask, and questions that their organization does not allow. */

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
    await joinAs('member', world.member.userId, elsewhere.id)
    const agent = world.agent()
    expect((await agent.ask('Read', {}, { organization_id: elsewhere.id })).decision).toBe('allow')
    expect((await agent.ask('Read')).decision).toBe('allow')
    expect((await agent.ask('Read', {}, { organization_id: world.organizationId })).decision).toBe('deny')
    const [session] = (await server.call(elsewhere.owner.key, 'GET', '/agent-sessions')).body.data
    expect(session.session_id).toBe(agent.session)
  })

  test('a revoked session stays revoked, without its pending and unused approvals', async () => {
    await world.hold('Write')
    const agent = world.agent()
    const { approval_id } = await agent.ask('Write')
    const waiting = world.asMember('GET', `/authorize/approvals/${approval_id}?wait=30`)
    const { approval_id: unused } = await agent.ask('Write', { file_path: 'b' })
    await world.decide(unused, 'approve')
    const revoked = { status: 'revoked', revoked_by: world.admin.userId, revoke_reason: 'gone wild' }
    const { body } = await world.revoke(agent.session, { reason: 'gone wild' })
    expect(body).toMatchObject({ session_id: agent.session, ...revoked })
    expect((await waiting).body.status).toBe('cancelled')
    expect((await world.approval(unused)).status).toBe('cancelled')
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
    await joinAs('member', owner.userId)
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
