import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { agentWorld, type AgentWorld } from './agents/agent.ts'
import { startTestServer, type TestServer } from './server.ts'

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
  world = await agentWorld(server)
})
afterAll(() => server.close())

const diff = (body: unknown, key = world.member.key) =>
  server.call(key, 'POST', `/organizations/${world.organizationId}/rules/diff`, body)
const outside = (...domains: string[]) => ({
  name: 'mail stays inside',
  verdict: 'deny',
  tools: ['mail_send'],
  applies_to: ['workflows'],
  params: [{ param: 'to', operator: 'domain_not_in', value: domains }],
})

test('drafts are compared with the saved rules, and each change has a call that `rules/test` takes', async () => {
  const saved = (await world.change('POST', '/rules', outside('acme.com'))).body.id
  const { status, body } = await diff({ from: 'active', to: [outside('acme.com', 'partner.example')] })
  expect(status).toBe(200)
  expect(body).toMatchObject({
    changes: [
      {
        change: 'deny->allow',
        example_call: {
          source: 'workflows',
          tool: 'mail_send',
          side_effect: 'egress',
          params: { to: 'someone@partner.example' },
          labels: [],
        },
        approval: { from: null, to: null },
        rules: [{ set: 'from', id: saved, name: 'mail stays inside', verdict: 'deny' }],
      },
    ],
    limit_reached: null,
  })
  const path = `/organizations/${world.organizationId}/rules/test`
  const [{ example_call: call }] = body.changes
  expect((await server.call(world.member.key, 'POST', path, { call })).body.decision).toBe('deny')
})

test('two lists of drafts are compared without the saved rules', async () => {
  const { body } = await diff({ from: [], to: [outside('acme.com')] })
  expect(body.changes).toMatchObject([
    {
      change: 'allow->deny',
      rules: [{ set: 'to', id: 'draft_0', name: 'mail stays inside', verdict: 'deny' }],
    },
  ])
  expect((await diff({ from: [outside('acme.com')], to: [outside('acme.com')] })).body.changes).toEqual([])
})

test('a change of the terms of an approval is shown with the terms of both sides', async () => {
  await world.change('PATCH', '/governance', { approvals_enabled: true })
  const hold = { name: 'mail is approved', verdict: 'require_approval', tools: ['mail_send'] }
  const terms = { approver: 'owner', approvals_needed: 3, expires_after_seconds: 60 }
  const { body } = await diff({ from: [{ ...hold, ...terms }], to: [hold] })
  expect(body.changes).toMatchObject([
    {
      change: 'require_approval->require_approval',
      approval: { from: terms, to: { approver: 'admin', approvals_needed: 1, expires_after_seconds: null } },
      rules: [{ set: 'from' }, { set: 'to' }],
    },
  ])
})

test('votes below the setting `approval_threshold` are no change', async () => {
  await world.change('PATCH', '/governance', { approvals_enabled: true, approval_threshold: 3 })
  const hold = { name: 'mail is approved', verdict: 'require_approval', tools: ['mail_send'] }
  expect((await diff({ from: [hold], to: [{ ...hold, approvals_needed: 2 }] })).body.changes).toEqual([])
  expect((await diff({ from: [hold], to: [{ ...hold, approvals_needed: 4 }] })).body.changes).toMatchObject([
    { approval: { from: { approvals_needed: 3 }, to: { approvals_needed: 4 } } },
  ])
  await world.change('PATCH', '/governance', { approval_threshold: 1 })
})

test('the setting `external_tools` says which side effect an agent’s tool has', async () => {
  const sent = [{ name: 'r', verdict: 'deny', tools: ['Read'], side_effects: ['egress'] }]
  expect((await diff({ from: [], to: sent })).body.changes).toEqual([])
  await world.change('PATCH', '/governance', { external_tools: { Read: { side_effect: 'egress' } } })
  expect((await diff({ from: [], to: sent })).body.changes).toMatchObject([
    { example_call: { source: 'agents', tool: 'Read', side_effect: 'egress' } },
  ])
})

test('another organization’s rules are not compared', async () => {
  const other = await agentWorld(server)
  const path = `/organizations/${other.organizationId}/rules/diff`
  const { body } = await server.call(other.member.key, 'POST', path, { from: 'active', to: [] })
  expect(body).toEqual({ changes: [], tried: 0, limit_reached: null })
  expect((await server.call(world.member.key, 'POST', path, { from: 'active', to: [] })).status).toBe(404)
})

test('at most 50 changes are shown', async () => {
  const to = Array.from({ length: 60 }, (_, index) => ({ name: `r${index}`, verdict: 'deny', tools: [`mcp__s${index}__t`] })) // prettier-ignore
  const { body } = await diff({ from: [], to })
  expect(body.changes).toHaveLength(50)
  expect(body.limit_reached).toBe('changes')
})

describe('a request that is not valid is refused', () => {
  const bad = { ...outside('acme.com'), tools: ['mail_sendd'] }
  test.each([
    ['no `to`', { from: 'active' }, ['to']],
    ['the saved rules as `to`', { from: [], to: 'active' }, ['to']],
    ['an unknown word', { from: 'saved', to: [] }, ['from']],
    ['a draft that could not be saved', { from: 'active', to: [bad] }, ['to.0.tools.0']],
    ['another one', { from: [bad], to: [] }, ['from.0.tools.0']],
    [
      'too many drafts',
      { from: 'active', to: Array.from({ length: 1_001 }, () => outside('a.com')) },
      ['to'],
    ],
  ])('%s', async (_, body, places) => {
    const answer = await diff(body)
    expect(answer.status).toBe(422)
    expect(answer.body.error.details.map((each: { path: string }) => each.path)).toEqual(places)
  })
})
