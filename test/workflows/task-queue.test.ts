import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'
import { createContext } from '../../src/programs/create-context.ts'
import { startRun } from '../../src/governance/delivery/relay.ts'
import type { StartRequest } from '../../src/governance/delivery/workflow-engine.ts'
import { keepDefaultQueue, setQueue } from '../../src/governance/delivery/task-queue.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { until } from '../stack/until.ts'
import { auditOf } from '../governance/support.ts'
import { programEnv } from '../support/program-env.ts'
import { read, useTestStack, type Stack } from './worker-fixture.ts'

let stack: Stack
useTestStack((started) => (stack = started))

const ofRun = async (runId: string) => (await stack.client.workflow.getHandle(runId).describe()).taskQueue

test('an organization gets separate workers: its new runs start there, and after the reset on the shared queue again', async () => {
  const { context, client, organizationId } = stack
  const shared = context.config.temporal.taskQueue
  const own = `own-${randomBytes(4).toString('hex')}`
  await expect(setQueue(context, client, organizationId, own)).rejects.toMatchObject({ code: 'conflict' })
  const before = await stack.run({ steps: [read('a', 'wait')] })
  const worker = await stack.startWorker({ temporal: { ...context.config.temporal, taskQueue: own } })
  // The server learns of a worker's pollers a moment after the worker has started.
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

test('a queue whose workers have died is refused, though Temporal still lists them', async () => {
  const { context, client, organizationId } = stack
  const lastSeen = (secondsAgo: number) =>
    Object.create(client, {
      // A stand-in, because a real worker would have to be dead for more than a minute.
      workflowService: {
        value: {
          describeTaskQueue: async () => ({
            pollers: [{ lastAccessTime: { seconds: Math.floor(Date.now() / 1_000) - secondsAgo } }],
          }),
        },
      },
    }) as typeof client
  await expect(setQueue(context, lastSeen(200), organizationId, 'gone')).rejects.toMatchObject({
    code: 'conflict',
  })
  await setQueue(context, lastSeen(50), organizationId, 'there')
  await setQueue(context, client, organizationId, null)
})

test('a worker of one organization’s queue starts no runs of others', async () => {
  const { config } = stack.context
  await keepDefaultQueue(stack.context)
  const other = createContext({ ...config, temporal: { ...config.temporal, taskQueue: 'own' } }, 'worker')
  try {
    const queues: string[] = []
    const engine = {
      ...stack.motor,
      start: async ({ taskQueue }: StartRequest) => void queues.push(taskQueue),
    }
    await startRun(other, engine, stack.attributes, await stack.run({ steps: [read('a', 'wait')] }))
    expect(queues).toEqual([config.temporal.taskQueue])
  } finally {
    await other.close()
  }
})

test('an organization that does not exist has no queue', async () => {
  await expect(setQueue(stack.context, stack.client, 'org_none', null)).rejects.toMatchObject({
    code: 'not_found',
  })
})

/** `npm run set-queue` beside a stack with this database and Temporal server. */
function setQueueBeside(temporalAddress: string, ...args: string[]) {
  const { config } = stack.context
  const folder = temporaryFolder()
  const addresses = {
    database_url: config.database.url,
    temporal_address: temporalAddress,
    temporal_namespace: config.temporal.namespace,
  }
  writeFileSync(join(folder, 'bootstrap.json'), JSON.stringify(addresses))
  const program = fileURLToPath(new URL('../../src/programs/set-queue.ts', import.meta.url))
  return promisify(execFile)(process.execPath, [program, ...args], {
    env: {
      ...programEnv(),
      DATA_DIR: folder,
      DATA_ENCRYPTION_KEY: config.encryptionKeys[0]?.toString('base64'),
    },
  })
}

test('`npm run set-queue` asks the Temporal server of the stack in the data folder', async () => {
  const { context, organizationId } = stack
  const { address, taskQueue } = context.config.temporal
  const { stdout } = await setQueueBeside(address, organizationId, taskQueue)
  expect(JSON.parse(stdout)).toMatchObject({ organization_id: organizationId, task_queue: taskQueue })
  await expect(setQueueBeside(address, organizationId, 'nobody')).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining('error: no worker polls the task queue `nobody`'),
  })
  await setQueueBeside(address, organizationId, '--default')
})

test('without Temporal a queue is refused with its address; an organization that there is not comes first', async () => {
  // Nothing listens on port 1.
  const nowhere = '127.0.0.1:1'
  await expect(setQueueBeside(nowhere, 'org_none', 'acme')).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining('error: no organization `org_none`'),
  })
  await expect(setQueueBeside(nowhere, stack.organizationId, 'acme')).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`error: Temporal cannot be reached at \`${nowhere}\``),
  })
  // Removing the queue needs no Temporal.
  await setQueueBeside(nowhere, stack.organizationId, '--default')
})
