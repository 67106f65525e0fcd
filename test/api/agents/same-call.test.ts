import { createHash } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { startTestServer, type TestServer } from '../server.ts'
import { Agent, agentWorld, type AgentWorld } from './agent.ts'

/*
 * One call that is seen by both the hook and the gateway behind it (docs/decisions/0043), and facts that only the
 * gateway knows.
 */

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
})
beforeEach(async () => {
  world = await agentWorld(server)
})
afterAll(() => server.close())

test('the hook and the gateway behind it ask about one call: one approval, one set of labels', async () => {
  await world.change('POST', '/rules', { name: 'r', verdict: 'require_approval', tools: ['mcp__*'] })
  const agent = world.agent()
  const hook = agent.question('mcp__svc__fs__write_file', { path: 'a' })
  const { approval_id } = (await agent.send(hook)).body
  await world.decide(approval_id, 'approve')
  expect((await agent.send(hook)).body.decision).toBe('allow')
  const gateway = new Agent(server, world.member.key)
  const asked = { ...gateway.question('mcp__fs__write_file', { path: 'a' }), tool_use_id: hook.tool_use_id }
  const through = (await gateway.send(asked)).body
  expect(through).toMatchObject({ decision: 'allow' })
  expect(through.explanation).toContain(approval_id)
  for (const other of [
    { ...asked, tool_input: { path: 'b' } },
    { ...asked, tool_name: 'mcp__fs__delete_file' },
    { ...asked, tool_use_id: 'other' },
  ])
    expect((await gateway.send(other)).body.decision).toBe('require_approval')

  // Only the gateway reports the outcome of the call. The receipt of the hook's session shows one entry for the call.
  const report = { session_id: asked.session_id, tool_name: asked.tool_name, tool_input: asked.tool_input, tool_use_id: asked.tool_use_id, outcome: 'ok' } // prettier-ignore
  expect(await server.call(world.member.key, 'POST', '/authorize/observe', report)).toMatchObject({ body: { unapproved: false } }) // prettier-ignore
  const receipt = await server.call(world.member.key, 'GET', `/runs/${through.session_run_id}/authorization`)
  const calls = receipt.body.decisions.filter((each: { tool_use_id: string }) => each.tool_use_id === hook.tool_use_id) // prettier-ignore
  expect(calls).toMatchObject([
    { tool: hook.tool_name, verdict: 'allow', approval: { id: approval_id }, outcome: 'ok' },
  ])
})

/**
 * `cut` shortens a name as the gateway does: `mcp__svc__`, the beginning of the name and the hash of the whole name, 64
 * characters in total.
 */
const long = `fs__write_${'a_very_long_name_'.repeat(4)}`
const hashOf = (name: string) => createHash('sha256').update(name).digest('hex').slice(0, 8)
const cut = (name: string, hash = hashOf(name)) => `mcp__svc__${name.slice(0, 45)}_${hash}`

test.each([
  ['in the same session', 'mcp__svc__fs__write_file', 'mcp__fs__write_file', 'allow'],
  ['under another name of the gateway', 'mcp__our-own_svc__fs__write_file', 'mcp__fs__write_file', 'allow'],
  ['with `__` in the tool’s own name', 'mcp__svc__fs__write__file', 'mcp__fs__write__file', 'allow'],
  ['under a cut name', cut(long), `mcp__${long}`, 'allow'],
  [
    'under a cut name that was taken',
    `mcp__svc__fs__write_${hashOf('fs__write')}`,
    'mcp__fs__write',
    'allow',
  ],
  ['another hash', cut(long, '21b7e930'), `mcp__${long}`, 'require_approval'],
  ['another beginning', cut(long).replace('fs__write', 'fs__erase'), `mcp__${long}`, 'require_approval'],
  ['a shorter beginning', `mcp__svc__fs__w_${hashOf(long)}`, `mcp__${long}`, 'require_approval'],
  ['only the hash', `mcp__svc__${hashOf(long)}`, `mcp__${long}`, 'require_approval'],
  ['a server whose tool has this name', 'mcp__svc__x__y__t', 'mcp__y__t', 'require_approval'],
  ['the same call under two names', 'mcp__a__b__fs__write', 'mcp__fs__write', 'require_approval'],
  ['a name that no gateway produces', 'mcp___svc__fs__write', 'mcp__fs__write', 'require_approval'],
])('the hook’s question and the gateway’s question are one call: %s', async (_name, seen, tool, decision) => {
  const held = { verdict: 'require_approval', tools: ['mcp__*'] }
  await world.change('POST', '/rules', { name: 'r', ...held })
  const agent = world.agent()
  const hook = agent.question(seen, { path: 'a' })
  const { approval_id } = (await agent.send(hook)).body
  await world.decide(approval_id, 'approve')
  expect((await agent.send(hook)).body.decision).toBe('allow')
  expect((await agent.send({ ...hook, tool_name: tool })).body.decision).toBe(decision)
})

describe('the hook’s permission does not allow more at the gateway', () => {
  const egress = {
    name: 'no company data',
    verdict: 'deny',
    side_effects: ['egress'],
    labels: { any_of: ['internal'] },
  }
  const revoke = async (session: string) => {
    const { data } = (await server.call(world.admin.key, 'GET', `/agent-sessions?session_id=${session}`)).body
    await server.call(world.admin.key, 'POST', `/agent-sessions/${data[0].id}/revoke`, {})
  }

  test('an approval that does not satisfy the rules for the name behind it', async () => {
    const held = { verdict: 'require_approval' }
    await world.change('POST', '/rules', { name: 'all', ...held, tools: ['mcp__svc__*'] })
    await world.change('POST', '/rules', {
      name: 'bank',
      ...held,
      tools: ['mcp__bank__*'],
      approver: 'owner',
    })
    const agent = world.agent()
    const hook = agent.question('mcp__svc__bank__pay', { amount: 1 })
    await world.decide((await agent.send(hook)).body.approval_id, 'approve')
    expect((await agent.send(hook)).body.decision).toBe('allow')
    const behind = { ...hook, tool_name: 'mcp__bank__pay' }
    const asked = (await agent.send(behind)).body
    expect(asked).toMatchObject({ decision: 'require_approval', rule_name: 'bank' })
    await world.decide(asked.approval_id, 'approve', world.owner)
    expect((await agent.send(behind)).body.decision).toBe('allow')
  })

  test('labels of the asking session', async () => {
    await world.change('POST', '/rules', egress)
    const [other, agent] = [world.agent(), world.agent()]
    await agent.ask('Read')
    const hook = other.question('mcp__svc__mail__send')
    expect((await other.send(hook)).body.decision).toBe('allow')
    const asked = { ...hook, session_id: agent.session, tool_name: 'mcp__mail__send' }
    expect((await agent.send(asked)).body).toMatchObject({ decision: 'deny', labels: ['internal'] })
  })

  test.each([
    ['new to the service', false],
    ['known to the service', true],
  ])('the output also passes through the gateway’s session: one that is %s', async (_name, isKnown) => {
    await world.change('POST', '/rules', egress)
    const [agent, gateway] = [world.agent(), world.agent()]
    if (isKnown) await gateway.ask('mcp__mail__send')
    const hook = agent.question('mcp__svc__docs__read')
    expect((await agent.send(hook)).body.decision).toBe('allow')
    const asked = { ...gateway.question('mcp__docs__read'), tool_use_id: hook.tool_use_id }
    expect((await gateway.send(asked)).body.decision).toBe('allow')
    expect((await gateway.send(asked)).body.decision).toBe('allow')
    const own = await gateway.ask('mcp__mail__sampling_create_message')
    expect(own).toMatchObject({ decision: 'deny', labels: ['internal'] })
    const [{ label_sources }] = (
      await server.call(world.admin.key, 'GET', `/agent-sessions?session_id=${gateway.session}`)
    ).body.data
    expect(label_sources).toEqual([{ label: 'internal', from: ['mcp__docs__read'] }])
  })

  test.each(['the hook’s', 'the gateway’s'])('%s session once it is revoked', async (whose) => {
    const [agent, gateway] = [world.agent(), world.agent()]
    await gateway.ask('mcp__fs__stat')
    const hook = agent.question('mcp__svc__fs__write')
    expect((await agent.send(hook)).body.decision).toBe('allow')
    await revoke(whose === 'the hook’s' ? agent.session : gateway.session)
    const asked = { ...hook, session_id: gateway.session, tool_name: 'mcp__fs__write' }
    expect((await agent.send(asked)).body).toMatchObject({ decision: 'deny', reason: 'session revoked' })
  })

  test('the labels of an ended session still count', async () => {
    const [agent, gateway] = [world.agent(), world.agent()]
    await agent.ask('Read')
    const hook = agent.question('mcp__svc__mail__send')
    await agent.send(hook)
    await world.change('POST', '/rules', egress)
    await server.call(world.member.key, 'POST', '/authorize/sessions/end', { session_id: agent.session })
    const asked = { ...hook, session_id: gateway.session, tool_name: 'mcp__mail__send' }
    expect((await agent.send(asked)).body).toMatchObject({ decision: 'deny', labels: ['internal'] })
  })
})

test('a protocol tool’s lost answer is given again; in another session it is another call', async () => {
  await world.change('POST', '/rules', { name: 'r', verdict: 'require_approval', tools: ['mcp__*'] })
  const [agent, other] = [world.agent(), world.agent()]
  const question = agent.question('mcp__fs__write')
  await world.decide((await agent.send(question)).body.approval_id, 'approve')
  const first = (await agent.send(question)).body
  expect(first.decision).toBe('allow')
  expect((await agent.send(question)).body).toEqual(first)
  const elsewhere = (await agent.send({ ...question, session_id: other.session })).body
  expect(elsewhere.decision).toBe('require_approval')
})

test('a lost answer is not given again to an adapter that now reports more about the tool', async () => {
  const agent = world.agent()
  const question = agent.question('mcp__fs__frobnicate')
  const first = (await agent.send(question)).body
  const send = async (annotations: object) => (await agent.send({ ...question, annotations })).body
  expect(await send({ readOnlyHint: true })).toEqual(first)
  expect(await send({ openWorldHint: true })).toMatchObject({ decision: 'allow', side_effect: 'egress' })
  expect((await send({ definitionChanged: true })).reason).toBe('tool changed')
  const read = agent.question('mcp__fs__get')
  await agent.send(read)
  await agent.send({ ...read, annotations: { openWorldHint: true } })
  expect((await agent.ask('Edit')).labels).toContain('untrusted')
})

test('a used approval must also satisfy rules saved since', async () => {
  const rule = { verdict: 'require_approval', tools: ['Write'] }
  await world.change('POST', '/rules', { name: 'r', ...rule })
  const agent = world.agent()
  const write = agent.question('Write')
  await world.decide((await agent.send(write)).body.approval_id, 'approve')
  expect((await agent.send(write)).body.decision).toBe('allow')
  await world.change('POST', '/rules', { name: 'owners', ...rule, approver: 'owner' })
  expect((await agent.send(write)).body.decision).toBe('require_approval')
})

test('a tool that changed since the session first saw it is denied, whatever the rules', async () => {
  const agent = world.agent()
  const { decision, reason } = await agent.ask(
    'mcp__fs__read',
    {},
    { annotations: { definitionChanged: true } },
  )
  expect({ decision, reason }).toEqual({ decision: 'deny', reason: 'tool changed' })
  for (const annotations of [{ definitionChanged: false }, { definitionChanged: 'true' }])
    expect((await agent.ask('mcp__fs__other', {}, { annotations })).reason).not.toBe('tool changed')
})
