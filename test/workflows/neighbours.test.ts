import { expect, test } from '@jest/globals'
import { workflowDefinition } from '../../src/contract/definition.ts'
import { createOrganization } from '../../src/governance/people/organizations.ts'
import { acceptRun } from '../../src/governance/runs/start/accept.ts'
import { createWorkflow } from '../../src/governance/workflows/workflows.ts'
import { until } from '../stack/until.ts'
import { historiesOf } from './histories.ts'
import { read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both), { suggestAfterEvents: '40' })

/** A run of a new organization. */
async function runOfNeighbour(...steps: object[]): Promise<string> {
  const { context, caller } = stack
  const { id } = await createOrganization(context, caller('owner'), 'Neighbour')
  const owner = { ...caller('owner'), organizationId: id }
  const definition = workflowDefinition.parse({ steps })
  const workflow = await createWorkflow(context, owner, { name: 'w', description: '', definition })
  return (await acceptRun(context, { caller: owner, workflowId: workflow.id, inputs: {} })).runId
}

/** The number of calls of these runs that Temporal has never given to a worker. */
async function neverHandedOut(runIds: readonly string[]): Promise<number> {
  const views = await Promise.all(runIds.map((id) => stack.client.workflow.getHandle(id).describe()))
  const pending = views.flatMap(({ raw }) => raw.pendingActivities ?? [])
  return pending.filter(({ lastStartedTime }) => lastStartedTime == null).length
}

test('three hundred calls that wait for a server leave room for those of another organization', async () => {
  const items = Array.from({ length: 10 }, (_, index) => `wait ${index}`)
  const runIds = await Promise.all(
    Array.from({ length: 30 }, () => stack.run({ steps: [read('each', '{{item}}', { for_each: items })] })),
  )
  await until('as many calls wait as may be in progress', () => reads.waiting() === 100)
  await until('all others are scheduled', async () => (await neverHandedOut(runIds)) >= 150)
  const neighbours = await runOfNeighbour(read('a', 'a'), read('b', 'b', { depends_on: ['a'] }))
  expect(await stack.ended(neighbours)).toMatchObject({ run: 'completed', a: 'completed', b: 'completed' })
  // The neighbour's calls did not wait for the earlier calls.
  expect(await neverHandedOut(runIds)).toBeGreaterThan(0)
  expect(reads.waiting()).toBe(100)
  reads.release()
  for (const id of runIds) expect(await stack.ended(id)).toMatchObject({ run: 'completed' })
  // Each call was made once, also the calls that had to ask for a place again.
  expect(Object.fromEntries(reads.calls)).toEqual({ ...Object.fromEntries(items.map((item) => [item, 30])), a: 1, b: 1 }) // prettier-ignore
})

test('every history of a run has its organization as the key by which Temporal shares', async () => {
  const steps = Array.from({ length: 12 }, (_, n) =>
    read(`s${n}`, 'x', n === 0 ? {} : { depends_on: [`s${n - 1}`] }),
  )
  const runId = await stack.run({ steps })
  expect(await stack.ended(runId)).toMatchObject({ run: 'completed' })
  const histories = await historiesOf(stack, runId)
  expect(histories.length).toBeGreaterThan(1)
  for (const { events } of histories)
    expect(events?.[0]?.workflowExecutionStartedEventAttributes?.priority).toMatchObject({
      fairnessKey: stack.organizationId,
    })
})
