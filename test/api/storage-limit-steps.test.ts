import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { decideSteps } from '../../src/governance/runs/effects/effect.ts'
import { recordOutcomes } from '../../src/governance/runs/effects/outcome.ts'
import { opOf, outcomeOf, outputOf, runOf } from '../governance/runs/engine-fixture.ts'
import { agentWorld, type AgentWorld } from './agents/agent.ts'
import { startTestServer, type TestServer } from './server.ts'

/* Steps of runs at the limits of an organization's storage and approvals. */

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
})
beforeEach(async () => {
  world = await agentWorld(server)
  await world.change('POST', '/rules', { name: 'hold', verdict: 'require_approval', tools: ['Write'] })
})
afterAll(() => server?.close())

const mebibyte = 1024 ** 2
const limit = (limits: object) => world.change('PATCH', '/quota', limits)
/** Adds this many bytes to the organization's count of stored bytes. */
const keeps = (bytes: number) =>
  server.context.pool.query(
    'update chain_head set stored_bytes = stored_bytes + $2 where organization_id = $1',
    [world.organizationId, bytes],
  )
const auditEntries = async (): Promise<number> => {
  const { count } = await server.context.db
    .selectFrom('audit_events')
    .select((each) => each.fn.countAll<number>().as('count'))
    .where('organization_id', '=', world.organizationId)
    .executeTakeFirstOrThrow()
  return count
}

test('steps wait for storage room without using up attempts, and then continue', async () => {
  const { context } = server
  const send = (method: string, path: string, body?: unknown) =>
    server.call(world.owner.key, method, path, body)
  const named = `organization_id=${world.organizationId}`
  const definition = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' } }] }
  const workflow = (await send('POST', `/workflows?${named}`, { name: 'w', definition })).body.id
  const execute = async () => (await send('POST', `/workflows/${workflow}/execute?wait=0`, {})).body
  const op = opOf((await execute()).execution_id)
  const decide = () => context.combiner.join(world.organizationId, decideSteps, op)
  const isNoted = async () => (await runOf(context, op.key.runId)).status_reason

  await keeps(3 * mebibyte)
  await limit({ storage_mb: 2 })
  const before = await auditEntries()
  for (let each = 0; each < 5; each += 1) expect(await decide()).toEqual({ go: false, state: 'no_room' })
  expect(await auditEntries()).toBe(before)
  expect(await isNoted()).toBe('the run waits: the organization is at its limit of 2 MiB (`storage_mb`)')
  expect((await execute()).error).toMatchObject({ code: 'quota_exceeded' })
  await keeps(-3 * mebibyte)
  expect(await decide()).toMatchObject({ go: true, attempt: 1, failures: 0 })

  // If there is no room for the output of a read, the read is repeated once there is room.
  const call = {
    source: 'workflows',
    tool: 'memory_get',
    sideEffect: 'read',
    params: {},
    labels: [],
  } as const
  const output = outputOf(op.key, 'x'.repeat(3 * mebibyte))
  const outcome = outcomeOf(op, 1, { state: 'completed', output, labels: [], call })
  const end = (of: typeof outcome) => context.combiner.join(world.organizationId, recordOutcomes, of)
  expect(await end(outcome)).toBe('retry')
  expect(await decide()).toEqual({ go: false, state: 'no_room' })
  await limit({ storage_mb: 10 })
  expect(await decide()).toMatchObject({ go: true, attempt: 2, failures: 0 })
  expect(await end({ ...outcome, attempt: 2 })).toBe('completed')
})

test('a step that would be held over `pending_approvals` waits, and can still be cancelled', async () => {
  await world.change('POST', '/rules', { name: 'mails', verdict: 'require_approval', tools: ['mail_send'] })
  await world.agent().ask('Write', { file_path: 'a' })
  await limit({ pending_approvals: 1 })
  const { context } = server
  const send = (path: string, body: unknown) => server.call(world.owner.key, 'POST', path, body)
  const definition = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' } }] }
  const made = await send(`/workflows?organization_id=${world.organizationId}`, { name: 'w', definition })
  const run = await send(`/workflows/${made.body.id}/execute?wait=0`, {})
  const op = opOf(run.body.execution_id)
  const decide = () => context.combiner.join(world.organizationId, decideSteps, op)
  expect(await decide()).toEqual({ go: false, state: 'no_room' })
  expect((await runOf(context, op.key.runId)).status_reason).toContain('`pending_approvals`')
  await limit({ pending_approvals: 2 })
  expect(await decide()).toMatchObject({ go: false, state: 'held', waitsFor: 'approval' })
  await world.change('PATCH', '/governance', { approval_required_from: 'low' })
  const refused = await send(`/workflows/${made.body.id}/execute?wait=0`, {})
  expect(refused.body.error).toMatchObject({
    code: 'quota_exceeded',
    details: [{ path: 'pending_approvals' }],
  })
  await send(`/runs/${op.key.runId}/cancel`, {})
  expect(await decide()).toMatchObject({ state: 'cancelled' })
})
