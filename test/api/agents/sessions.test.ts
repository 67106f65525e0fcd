import { beforeEach, describe, expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import type { Role } from '../../../src/policy/types.ts'
import { Browser } from '../browser.ts'
import { addKey, addOrganization, addPerson, requireFactors, sessionCookie } from '../fixtures.ts'
import type { Answer, TestServer } from '../server.ts'
import { useAgentWorld, type AgentWorld } from './agent.ts'

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
    const receipt = (await world.asMember('GET', `${path}/authorization`)).body
    expect(receipt.workflow_id).toBeNull()
    expect(receipt.decisions.map((each: { tool: string; seq: number }) => [each.tool, each.seq])).toEqual([
      ['Read', 1],
      ['Write', 2],
    ])
    const record = (await world.asMember('GET', path)).body
    const wanted = { id: session_run_id, workflow_id: null, status: 'running', nodes_executed: 2 }
    expect(record).toMatchObject(wanted)
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

  test('by a revocation, unused approvals end too', async () => {
    const agent = world.agent()
    const { approval_id } = await agent.ask('Write')
    await world.decide(approval_id, 'approve')
    await world.revoke(agent.session)
    expect((await world.approval(approval_id)).status).toBe('cancelled')
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
    const [asAdmin, asMember] = [
      await elsewhere(world.admin.userId, 'admin'),
      await elsewhere(world.admin.userId, 'member'),
    ]
    await elsewhere(world.member.userId, 'owner')
    const { key } = world.admin
    expect(await sessionsOf(key)).toEqual([200, [asAdmin.session, here]])
    const first = await server.call(key, 'GET', '/agent-sessions?limit=1')
    expect(first.body.data).toMatchObject([{ session_id: asAdmin.session, organization_id: asAdmin.id }])
    expect(await sessionsOf(key, `?limit=1&cursor=${first.body.next_cursor}`)).toEqual([200, [here]])
    expect(await sessionsOf(key, `?organization_id=${world.organizationId}`)).toEqual([200, [here]])
    expect(await sessionsOf(key, `?organization_id=${asMember.id}`)).toEqual([403, 'insufficient_role'])
    expect(await sessionsOf(key, `?session_id=${here}`)).toEqual([200, [here]])
  })

  test('needs the role in one organization of a signed-in person; a named one is listed alone', async () => {
    const { userId } = world.member
    await ours()
    const cookie = await sessionCookie(server.context, userId)
    const signedIn = async (headers: Record<string, string> = {}) =>
      listed(await new Browser(server).send('GET', '/agent-sessions', undefined, { cookie, ...headers }))
    expect(await signedIn()).toEqual([403, 'insufficient_role'])
    const [first, second] = [await elsewhere(userId, 'admin'), await elsewhere(userId, 'owner')]
    expect(await signedIn()).toEqual([200, [second.session, first.session]])
    expect(await signedIn({ 'x-organization-id': first.id })).toEqual([200, [first.session]])
    expect(await signedIn({ 'x-organization-id': world.organizationId })).toEqual([403, 'insufficient_role'])
  })

  test('needs the role of a key in its own organization', async () => {
    const { userId } = world.member
    await elsewhere(userId, 'owner')
    const { secret } = await addKey(server.context, world.organizationId, userId, ['agents:read'])
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
    const unreadable = await world.asMember('POST', '/authorize', { nothing: 1 })
    expect([unreadable.status, unreadable.body.reason]).toEqual([200, 'unreadable request'])
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
  expect(await world.sessions()).toMatchObject([
    { session_id: agent.session, status: 'ended', ended_at: expect.any(String), decisions: { deny: 1 } },
  ])
  await changeRole('member')
  expect((await agent.ask('Read')).decision).toBe('allow')
  expect(await world.sessions()).toMatchObject([{ status: 'live', ended_at: null }])
})

test('another role that may use agents ends no session', async () => {
  const agent = world.agent()
  await agent.ask('Read')
  await changeRole('admin')
  expect(await world.sessions()).toMatchObject([{ session_id: agent.session, status: 'live' }])
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
  const statuses = []
  for (const id of [waits, given, asked.body.approval_id]) statuses.push((await world.approval(id)).status)
  expect(statuses).toEqual(['cancelled', 'cancelled', 'pending'])
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
