import { randomBytes } from 'node:crypto'
import { expect, test } from '@jest/globals'
import { createContext } from '../../src/context.ts'
import { keepDefaultQueue, queueOf, setQueue } from '../../src/governance/task-queue.ts'
import { until } from '../stack/until.ts'
import { auditOf } from '../governance/support.ts'
import { read, useTestStack, type Stack } from './worker-fixture.ts'

let stack: Stack
useTestStack((started) => (stack = started))

const ofRun = async (runId: string) => (await stack.client.workflow.getHandle(runId).describe()).taskQueue

test('an organization gets workers of its own: new runs start there, and afterwards where all do', async () => {
  const { context, client, organizationId } = stack
  const shared = context.config.temporal.taskQueue
  const own = `own-${randomBytes(4).toString('hex')}`
  await expect(setQueue(context, client, organizationId, own)).rejects.toMatchObject({ code: 'conflict' })
  const before = await stack.run({ steps: [read('a', 'wait')] })
  const worker = await stack.startWorker({ temporal: { ...context.config.temporal, taskQueue: own } })
  // The server learns of a worker's pollers a moment after it has started.
  await until('the worker polls', () =>
    setQueue(context, client, organizationId, own).then(Boolean, () => false),
  )
  await setQueue(context, client, organizationId, null)
  const view = await setQueue(context, client, organizationId, own)
  expect(view).toEqual({ organization_id: organizationId, task_queue: own, runs_in_flight: 1 })
  expect(await auditOf(context, organizationId, 1)).toMatchObject([
    { event_type: 'organization.queue_changed' },
  ])
  const there = await stack.run({ steps: [read('a', 'a')] })
  expect(await stack.ended(there)).toMatchObject({ run: 'completed' })
  expect([await ofRun(before), await ofRun(there)]).toEqual([shared, own])
  await setQueue(context, client, organizationId, null)
  await worker.stop()
  const back = await stack.run({ steps: [read('a', 'a')] })
  expect(await stack.ended(back)).toMatchObject({ run: 'completed' })
  expect(await ofRun(back)).toBe(shared)
})

test('a worker of one organization’s queue starts nobody else’s runs there', async () => {
  const { config } = stack.context
  await keepDefaultQueue(stack.context)
  const other = createContext({ ...config, temporal: { ...config.temporal, taskQueue: 'own' } }, 'worker')
  try {
    expect(await queueOf(other, stack.organizationId)).toBe(config.temporal.taskQueue)
  } finally {
    await other.close()
  }
})

test('an organization that there is not has no queue', async () => {
  await expect(setQueue(stack.context, stack.client, 'org_none', null)).rejects.toMatchObject({
    code: 'not_found',
  })
})
