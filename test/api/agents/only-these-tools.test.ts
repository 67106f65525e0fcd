import { describe, expect, test } from '@jest/globals'
import { addPerson } from '../fixtures.ts'
import { Agent, useAgentWorld, type AgentWorld } from './agent.ts'

/* `default_agent_access: deny`: a call of an agent passes only where a rule allows it. */

let world: AgentWorld
useAgentWorld((made) => {
  world = made
})

const refused = { decision: 'deny', reason: 'no rule allows it', rule_name: null }
const allowReads = { name: 'reads', verdict: 'allow', side_effects: ['read'], applies_to: ['agents'] }

test('of the organization: a rule that allows lifts it, and the receipt and the test of a rule say the same', async () => {
  await world.change('PATCH', '/governance', { default_agent_access: 'deny' })
  const agent = world.agent()
  expect(await agent.ask('Read', { file_path: '/w/a' })).toMatchObject(refused)
  const asked = { call: { source: 'agents', tool: 'Read', params: { file_path: '/w/a' } } }
  expect((await world.change('POST', '/rules/test', asked)).body).toMatchObject({ reason: refused.reason })
  await world.change('POST', '/rules', allowReads)
  expect(await agent.ask('Read', { file_path: '/w/a' })).toMatchObject({
    decision: 'allow',
    rule_name: 'reads',
  })
  expect(await agent.ask('Write', { file_path: '/w/a' })).toMatchObject(refused)
  await world.change('PATCH', '/governance', { default_agent_access: 'allow' })
  expect(await agent.ask('Write', { file_path: '/w/a' })).toMatchObject({ decision: 'allow' })
})

test('of a key: only calls that ask with it, and it stays so', async () => {
  const made = await world.asMember('POST', '/api-keys', {
    name: 'narrow',
    scopes: ['agents:authorize'],
    organization_id: world.organizationId,
    default_agent_access: 'deny',
  })
  expect(made.body.default_agent_access).toBe('deny')
  const narrow = new Agent(world.server, made.body.api_key)
  expect(await narrow.ask('Read')).toMatchObject(refused)
  expect(await world.agent().ask('Read')).toMatchObject({ decision: 'allow' })
  const change = (access: string) =>
    world.asMember('PATCH', `/api-keys/${made.body.id}`, { default_agent_access: access })
  expect(await change('allow')).toMatchObject({ status: 409 })
  expect(await change('deny')).toMatchObject({ status: 200 })
  await world.change('POST', '/rules', allowReads)
  expect(await narrow.ask('Read')).toMatchObject({ decision: 'allow' })
})

describe('of a group', () => {
  const makeGroup = async (): Promise<string> => {
    const { body } = await world.change('POST', '/groups', {
      name: 'interns',
      members: [world.member.userId],
    })
    await world.change('PATCH', `/groups/${body.id}`, { default_agent_access: 'deny' })
    return body.id
  }

  test('only agents of its members, from the next call on', async () => {
    const id = await makeGroup()
    expect(await world.agent().ask('Read')).toMatchObject(refused)
    expect(await new Agent(world.server, world.admin.key).ask('Read')).toMatchObject({ decision: 'allow' })
    await world.change('DELETE', `/groups/${id}/members/${world.member.userId}`)
    expect(await world.agent().ask('Read')).toMatchObject({ decision: 'allow' })
  })

  test('to lift it, to take a person out, and to allow more waits for a second person where loosening does', async () => {
    const id = await makeGroup()
    await addPerson(world.server.context, world.organizationId, 'owner')
    await world.change('PATCH', '/governance', { loosening: 'second_person' })
    const waits = async (method: string, path: string, body?: unknown) =>
      expect((await world.change(method, path, body)).status).toBe(202)
    await waits('PATCH', `/groups/${id}`, { default_agent_access: 'allow' })
    await waits('DELETE', `/groups/${id}/members/${world.member.userId}`)
    await waits('POST', '/rules', allowReads)
    expect(await world.agent().ask('Read')).toMatchObject(refused)
  })
})
