import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { addKey } from '../fixtures.ts'
import { startTestServer, type TestServer } from '../server.ts'
import { Agent, agentWorld, type AgentWorld } from './agent.ts'

/* POST /authorize: calls that a rule holds, until they run, are denied or are withdrawn. */

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
})
beforeEach(async () => {
  world = await agentWorld(server)
})
afterAll(() => server.close())

describe('a held call', () => {
  const rule = { name: 'writes wait', verdict: 'require_approval', tools: ['Write'] }
  beforeEach(() => world.change('POST', '/rules', rule))

  test('gets the same approval when asked again, and runs once after approval', async () => {
    const agent = world.agent()
    const held = await agent.ask('Write', { file_path: 'a' })
    expect(held).toMatchObject({ decision: 'require_approval', reason: rule.name })
    const again = await agent.ask('Write', { file_path: 'a' })
    expect(again.approval_id).toBe(held.approval_id)
    const other = await agent.ask('Write', { file_path: 'b' })
    expect(other.approval_id).not.toBe(held.approval_id)
    expect((await world.decide(held.approval_id, 'approve')).status).toBe(200)
    const racing = await Promise.all([1, 2, 3].map(() => agent.ask('Write', { file_path: 'a' })))
    expect(racing.filter((each) => each.decision === 'allow')).toHaveLength(1)
    const anew = racing.filter((each) => each.decision === 'require_approval').map((each) => each.approval_id)
    expect(new Set(anew).size).toBe(1)
    expect(anew[0]).not.toBe(held.approval_id)
    const approval = await server.call(world.admin.key, 'GET', `/approvals/${held.approval_id}`)
    expect(approval.body).toMatchObject({
      kind: 'agent_call',
      session_id: agent.session,
      params: { file_path: 'a' },
      tool: 'Write',
      status: 'approved',
    })
    expect(approval.body.used_at).not.toBeNull()
    const { email } = await server.context.db
      .selectFrom('users')
      .select('email')
      .where('id', '=', approval.body.requested_by)
      .executeTakeFirstOrThrow()
    expect(approval.body.requester_email).toBe(email)
    const { body: listed } = await server.call(
      world.admin.key,
      'GET',
      `/approvals?organization_id=${world.organizationId}`,
    )
    const inList = listed.data.find((each: { id: string }) => each.id === held.approval_id)
    expect(inList.requester_email).toBe(email)
  })

  test('stays denied after a rejection', async () => {
    const agent = world.agent()
    const { approval_id } = await agent.ask('Write')
    await world.decide(approval_id, 'reject')
    const denied = await agent.ask('Write')
    expect(denied).toMatchObject({ decision: 'deny', reason: rule.name })
    expect(denied.explanation).toContain('rejected it')
  })

  test('waits for its person, gets the decision at once, and only its own person may withdraw it', async () => {
    const agent = world.agent()
    const { approval_id } = await agent.ask('Write')
    const path = `/authorize/approvals/${approval_id}`
    const waiting = server.call(world.member.key, 'GET', `${path}?wait=30`)
    expect((await server.call(world.admin.key, 'GET', path)).status).toBe(404)
    await world.decide(approval_id, 'approve')
    expect((await waiting).body).toMatchObject({ status: 'approved', decided_by: world.admin.userId })
    const next = await agent.ask('Write', { n: 1 })
    const cancel = `/authorize/approvals/${next.approval_id}/cancel`
    expect((await server.call(world.admin.key, 'POST', cancel)).status).toBe(404)
    expect((await server.call(world.member.key, 'POST', cancel)).body.status).toBe('cancelled')
    expect((await agent.ask('Write', { n: 1 })).approval_id).not.toBe(next.approval_id)
  })

  test('shows nothing more to a key that was revoked during the wait', async () => {
    const key = await addKey(server.context, world.organizationId, world.member.userId, ['agents:authorize'])
    const { approval_id } = await new Agent(server, key.secret).ask('Write')
    const waiting = server.call(key.secret, 'GET', `/authorize/approvals/${approval_id}?wait=30`)
    // The waiting request may see the decision before or after the revocation: the result is the same.
    await server.context.pool.query('update api_keys set revoked_at = now() where id = $1', [key.id])
    await world.decide(approval_id, 'approve')
    expect((await waiting).status).toBe(401)
  })

  test('is held anew after its expiry', async () => {
    const agent = world.agent()
    const { approval_id } = await agent.ask('Write')
    await server.context.pool.query(
      "update approvals set expires_at = now() - interval '1 s' where id = $1",
      [approval_id],
    )
    const path = `/authorize/approvals/${approval_id}`
    expect((await server.call(world.member.key, 'GET', path)).body.status).toBe('expired')
    expect((await agent.ask('Write')).approval_id).not.toBe(approval_id)
  })

  test('is held anew if the session has since got labels that the approver did not see', async () => {
    const agent = world.agent()
    const { approval_id } = await agent.ask('Write')
    await world.decide(approval_id, 'approve')
    await agent.ask('Read')
    const anew = await agent.ask('Write')
    expect(anew.decision).toBe('require_approval')
    expect(anew.approval_id).not.toBe(approval_id)
  })

  test('is denied if a denying rule was saved after the approval', async () => {
    const agent = world.agent()
    const { approval_id } = await agent.ask('Write')
    await world.decide(approval_id, 'approve')
    await world.change('POST', '/rules', { name: 'no writes', verdict: 'deny', tools: ['Write'] })
    expect(await agent.ask('Write')).toMatchObject({ decision: 'deny', reason: 'no writes' })
  })

  test('that nobody needs to decide any more is withdrawn', async () => {
    const agent = world.agent()
    const { approval_id } = await agent.ask('Write')
    const { body } = await server.call(world.owner.key, 'GET', `/organizations/${world.organizationId}/rules`)
    await world.change('DELETE', `/rules/${body.data[0].id}`)
    expect((await agent.ask('Write')).decision).toBe('allow')
    const approval = await server.call(world.admin.key, 'GET', `/approvals/${approval_id}`)
    expect(approval.body.status).toBe('cancelled')
  })
})
