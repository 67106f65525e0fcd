import { held, keep } from './governance.ts'
import { proof, type Proofs, type World } from './world.ts'

/* The quotas of an organization. */

/** Under one of the two limits, the last of several objects is accepted. Under the other limit it is refused. */
const limited = (
  name: string,
  values: readonly [number, number],
  seen: readonly [unknown, unknown],
  last: (world: World) => Promise<unknown>,
) =>
  proof(values, seen, async (world, value) => {
    const set = (limits: object) => world.ok('owner', 'PATCH', `${world.path}/quota`, limits)
    await set({ [name]: value })
    return last(world)
  })

const waiting = (world: World) => ({
  steps: [{ id: 's', tool: 'file_read', params: { path: `wait ${world.id}` } }],
})

/** Starts this many runs that wait, and returns the answer to the last one. */
async function runs(world: World, count: number) {
  const id = await world.workflow(waiting(world))
  for (let n = 1; n < count; n += 1) await world.execute(id, {}, 0)
  const last = await world.execute(id, {}, 0)
  world.api.reads.release(`wait ${world.id}`)
  return last
}

async function spend(world: World) {
  const id = await world.workflow(keep)
  const { body } = await world.execute(id)
  await world.api.stack.context.pool.query('update runs set cost = 5 where id = $1', [body.execution_id])
  return (await world.execute(id)).status
}

/** Stores two values that together take more than one MiB, and returns the answer to the second. */
async function memory(world: World) {
  const put = (key: string) => world.send('member', 'PUT', `/memory/${key}`, { value: 'x'.repeat(900_000) })
  await put('a')
  return (await put('b')).status
}

/** Sends several requests, and returns the status of the last one. */
async function requests(world: World) {
  for (let n = 0; n < 30; n += 1) await world.send('member', 'GET', '/workflows')
  return (await world.send('member', 'GET', '/workflows')).status
}

export const quotaProofs: Proofs = {
  workflow_runs_per_hour: limited(
    'workflow_runs_per_hour',
    [1, 2],
    [429, 202],
    async (world) => (await runs(world, 2)).status,
  ),
  concurrent_executions: limited('concurrent_executions', [1, 2], [true, false], async (world) =>
    (await runs(world, 2)).body.status_reason.includes('concurrent runs to end'),
  ),
  queued_executions: limited('queued_executions', [1, 2], [429, 202], async (world) => {
    await world.ok('owner', 'PATCH', `${world.path}/quota`, { concurrent_executions: 1 })
    return (await runs(world, 3)).status
  }),
  monthly_spend: limited('monthly_spend', [1, 100], [429, 200], spend),
  requests_per_minute: limited('requests_per_minute', [20, 100_000], [429, 200], requests),
  requests_per_day: limited('requests_per_day', [20, 100_000], [429, 200], requests),
  authorize_per_minute: limited('authorize_per_minute', [1, 100], ['deny', 'allow'], async (world) => {
    for (let n = 0; n < 5; n += 1) await world.ask('Read')
    return (await world.ask('Read')).decision
  }),
  memory_mb: limited('memory_mb', [1, 100], [429, 200], memory),
  storage_mb: limited('storage_mb', [1, 100], [429, 200], memory),
  pending_approvals: limited('pending_approvals', [1, 2], ['deny', 'require_approval'], async (world) => {
    await held(world)
    return (await world.ask('Write', { file_path: 'b' })).decision
  }),
  rules: limited('rules', [1, 2], [429, 201], async (world) => {
    const save = (name: string) =>
      world.send('admin', 'POST', `${world.path}/rules`, { name, verdict: 'deny', tools: ['Bash'] })
    await save('a')
    return (await save('b')).status
  }),
}
