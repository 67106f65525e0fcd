import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { removeOldData } from '../../../src/governance/upkeep/retention.ts'
import { startTestServer, type TestServer } from '../server.ts'
import { agentWorld } from './agent.ts'

/* The setting `keep_decision_params` for agents' questions (docs/decisions/0051). */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ env: { RETENTION_DAYS: '0' } })
})
afterAll(() => server.close())

test('without the setting a held call’s input is shown while it waits, and not kept after', async () => {
  const world = await agentWorld(server)
  await world.change('POST', '/rules', { name: 'r', verdict: 'require_approval', tools: ['Write'] })
  const agent = world.agent()
  const input = { file_path: 'a', content: 'secret' }
  const { approval_id: first } = await agent.ask('Write', input)
  const { approval_id: second } = await agent.ask('Write', { ...input, file_path: 'b' })
  const shown = async (id: string) => (await server.call(world.admin.key, 'GET', `/approvals/${id}`)).body
  await world.decide(first, 'approve')
  await removeOldData(server.context)
  expect((await shown(first)).params).toEqual(input)
  await world.change('PATCH', '/governance', { keep_decision_params: false })
  await removeOldData(server.context)
  const { params, params_hash, status } = await shown(first)
  expect({ params, status, hash: params_hash.length }).toEqual({
    params: undefined,
    status: 'approved',
    hash: 64,
  })
  expect((await shown(second)).params.content).toBe('secret')
  // The agent sends the input again with each question, so the removed input is not needed.
  expect((await agent.ask('Write', input)).decision).toBe('allow')
})
