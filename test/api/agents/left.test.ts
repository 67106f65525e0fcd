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
  expect(events[0].metadata).toMatchObject({ member_id: world.member.userId, cancelled_approvals: 2 })

  // After the person has come back, the agent asks again.
  await server.context.db
    .insertInto('memberships')
    .values({ organization_id: world.organizationId, user_id: world.member.userId, role: 'member' })
    .execute()
  const anew = await second.ask('Write')
  expect(anew.decision).toBe('require_approval')
  expect(anew.approval_id).not.toBe(given)
})
