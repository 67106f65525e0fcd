import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { startTestServer, type TestServer } from '../server.ts'
import { agentWorld, type AgentWorld } from './agent.ts'

/* Keys of people who left, or who may not ask any more, have no effect in the organization. */

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
})
beforeEach(async () => {
  world = await agentWorld(server)
})
afterAll(() => server.close())

/** The numbers of all rows that a spammer could add. */
async function written(): Promise<unknown> {
  const { db } = server.context
  const count = async (table: 'audit_events' | 'agent_sessions' | 'decisions'): Promise<string> => {
    const { n } = await db
      .selectFrom(table)
      .select((eb) => eb.fn.countAll<string>().as('n'))
      .where('organization_id', '=', world.organizationId)
      .executeTakeFirstOrThrow()
    return n
  }
  const observed = await db
    .selectFrom('agent_observations as o')
    .innerJoin('decisions as d', 'd.id', 'o.decision_id')
    .select('d.id')
    .where('d.organization_id', '=', world.organizationId)
    .execute()
  return [
    await count('audit_events'),
    await count('agent_sessions'),
    await count('decisions'),
    observed.length,
  ]
}

const leave = {
  'who was removed': () => world.change('DELETE', `/members/${world.member.userId}`),
  'who is a viewer now': () => world.change('PATCH', `/members/${world.member.userId}`, { role: 'viewer' }),
}
const refusals = { 'who was removed': [404, 'not_found'], 'who is a viewer now': [403, 'insufficient_role'] }

describe.each(Object.keys(leave) as (keyof typeof leave)[])('by %s nothing is written', (who) => {
  const refusal = refusals[who]

  test('reporting: calls allowed before, never allowed calls, in old and new sessions', async () => {
    const [agent, other] = [world.agent(), world.agent()]
    const named = agent.question('Edit', { file_path: '/a' })
    const { tool_use_id: _, ...nameless } = agent.question('Edit', { file_path: '/b' })
    for (const question of [named, nameless]) expect((await agent.send(question)).body.decision).toBe('allow')
    await leave[who]()
    const before = await written()
    const observe = (body: object) => server.call(world.member.key, 'POST', '/authorize/observe', body)
    for (const [session, question] of [
      [agent.session, named],
      [agent.session, nameless],
      [agent.session, { tool_name: 'Edit', tool_input: { file_path: '/c' } }],
      [other.session, { tool_name: 'Edit', tool_input: {} }],
    ] as const) {
      const { tool_name, tool_input } = question
      const tool_use_id = 'tool_use_id' in question ? question.tool_use_id : undefined
      const answer = await observe({ session_id: session, tool_name, tool_input, tool_use_id })
      expect([answer.status, answer.body.error?.code]).toEqual(refusal)
    }
    expect(await written()).toEqual(before)
  })

  test('unreadable questions are denied, and no audit log grows', async () => {
    await leave[who]()
    const before = await written()
    const answer = await server.call(world.member.key, 'POST', '/authorize', { nothing: 1 })
    expect([answer.status, answer.body.reason]).toEqual([200, 'unreadable request'])
    expect(await written()).toEqual(before)
  })

  test('ending a session, reading and withdrawing its approvals', async () => {
    await world.change('POST', '/rules', { name: 'r', verdict: 'require_approval', tools: ['Write'] })
    const agent = world.agent()
    const { approval_id } = await agent.ask('Write')
    await leave[who]()
    const before = await written()
    for (const [method, path, body] of [
      ['GET', `/authorize/approvals/${approval_id}`],
      ['POST', `/authorize/approvals/${approval_id}/cancel`, {}],
      ['POST', '/authorize/sessions/end', { session_id: agent.session }],
    ] as const) {
      const answer = await server.call(world.member.key, method, path, body)
      expect([path, answer.status, answer.body.error?.code]).toEqual([path, ...refusal])
    }
    expect(await written()).toEqual(before)
  })
})

describe.each(Object.keys(leave) as (keyof typeof leave)[])('the sessions of a person %s', (who) => {
  const reasons = { 'who was removed': 'not a member', 'who is a viewer now': 'role may not ask' }
  const reason = reasons[who]
  const sessionsBy = async (session: string) =>
    (await server.call(world.admin.key, 'GET', `/agent-sessions?session_id=${session}`)).body.data

  test('end, and their later questions do not open them again', async () => {
    await world.change('POST', '/rules', { name: 'r', verdict: 'require_approval', tools: ['Write'] })
    const [agent, ended, revoked] = [world.agent(), world.agent(), world.agent()]
    const { approval_id } = await agent.ask('Write')
    for (const each of [ended, revoked]) await each.ask('Read')
    await server.call(world.member.key, 'POST', '/authorize/sessions/end', { session_id: ended.session })
    const [{ ended_at: endedAt }] = await sessionsBy(ended.session)
    const [{ id }] = await sessionsBy(revoked.session)
    await server.call(world.admin.key, 'POST', `/agent-sessions/${id}/revoke`, {})
    await leave[who]()
    const [session] = await sessionsBy(agent.session)
    expect([session.status, session.ended_at]).toEqual(['ended', expect.any(String)])
    const approval = await server.call(world.admin.key, 'GET', `/approvals/${approval_id}`)
    expect(approval.body.status).toBe('cancelled')
    expect(await sessionsBy(ended.session)).toMatchObject([{ status: 'ended', ended_at: endedAt }])
    expect(await sessionsBy(revoked.session)).toMatchObject([{ status: 'revoked' }])

    const denied = await agent.ask('Read')
    expect(denied).toMatchObject({ decision: 'deny', reason, session_run_id: session.session_run_id })
    expect(await sessionsBy(agent.session)).toMatchObject([{ status: 'ended', decisions: { deny: 1 } }])

    await server.context.db
      .insertInto('memberships')
      .values({ organization_id: world.organizationId, user_id: world.member.userId, role: 'member' })
      .onConflict((row) => row.columns(['organization_id', 'user_id']).doUpdateSet({ role: 'member' }))
      .execute()
    expect((await agent.ask('Read')).decision).toBe('allow')
    expect(await sessionsBy(agent.session)).toMatchObject([{ status: 'live', ended_at: null }])
  })
})

test('a person who has left opens no session', async () => {
  await leave['who was removed']()
  const before = await written()
  const agent = world.agent()
  expect(await agent.ask('Read')).toMatchObject({
    decision: 'deny',
    reason: 'not a member',
    session_run_id: '',
  })
  expect(await written()).toEqual(before)
})

test('a new session of a viewer is never live, until the person may use agents again', async () => {
  await leave['who is a viewer now']()
  const agent = world.agent()
  expect(await agent.ask('Read')).toMatchObject({ decision: 'deny', reason: 'role may not ask' })
  const sessions = async () => (await server.call(world.owner.key, 'GET', '/agent-sessions')).body.data
  expect(await sessions()).toMatchObject([
    { session_id: agent.session, status: 'ended', ended_at: expect.any(String), decisions: { deny: 1 } },
  ])
  await world.change('PATCH', `/members/${world.member.userId}`, { role: 'member' })
  expect((await agent.ask('Read')).decision).toBe('allow')
  expect(await sessions()).toMatchObject([{ status: 'live', ended_at: null }])
})

test('another role that may use agents ends no session', async () => {
  const agent = world.agent()
  await agent.ask('Read')
  await world.change('PATCH', `/members/${world.member.userId}`, { role: 'admin' })
  const { data } = (await server.call(world.owner.key, 'GET', '/agent-sessions')).body
  expect(data).toMatchObject([{ session_id: agent.session, status: 'live' }])
})

test('a member’s unreadable question is in the audit log', async () => {
  await server.call(world.member.key, 'POST', '/authorize', { nothing: 1 })
  const path = `/organizations/${world.organizationId}/governance/audit?event_type=agent_call.unreadable`
  expect((await server.call(world.owner.key, 'GET', path)).body.events).toHaveLength(1)
})

test.each(['removed', 'leaving'])('a person’s pending approvals are withdrawn with them: %s', async (how) => {
  await world.change('POST', '/rules', { name: 'r', verdict: 'require_approval', tools: ['Write'] })
  const [agent, second] = [world.agent(), world.agent()]
  const waits = (await agent.ask('Write')).approval_id
  const given = (await second.ask('Write')).approval_id
  await world.decide(given, 'approve')
  const others = (await server.call(world.admin.key, 'POST', '/authorize', agent.question('Write'))).body
    .approval_id
  if (how === 'removed') await world.change('DELETE', `/members/${world.member.userId}`)
  else {
    const path = `/organizations/${world.organizationId}/members/${world.member.userId}`
    expect((await server.call(world.member.key, 'DELETE', path)).status).toBeLessThan(300)
  }
  const statusOf = async (id: string) =>
    (await server.call(world.admin.key, 'GET', `/approvals/${id}`)).body.status
  expect(await Promise.all([waits, given, others].map(statusOf))).toEqual([
    'cancelled',
    'cancelled',
    'pending',
  ])
  expect((await world.decide(waits, 'approve')).body.error.code).toBe('approval_already_decided')
  const type = how === 'removed' ? 'member.removed' : 'member.left'
  const path = `/organizations/${world.organizationId}/governance/audit?event_type=${type}`
  const { events } = (await server.call(world.owner.key, 'GET', path)).body
  expect(events[0].metadata).toMatchObject({
    member_id: world.member.userId,
    ended_sessions: 2,
    cancelled_approvals: 2,
  })

  // After the person has come back, the agent asks again.
  await server.context.db
    .insertInto('memberships')
    .values({ organization_id: world.organizationId, user_id: world.member.userId, role: 'member' })
    .execute()
  const anew = await second.ask('Write')
  expect(anew.decision).toBe('require_approval')
  expect(anew.approval_id).not.toBe(given)
})
