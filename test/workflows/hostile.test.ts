import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, test } from '@jest/globals'
import { Worker, NativeConnection } from '@temporalio/worker'
import { createToolActivities } from '../../src/activities/attempt.ts'
import { workflowType, wakeSignal, type RunInput, type SkeletonStep } from '../../src/contract/messages.ts'
import { startRun } from '../../src/governance/delivery/relay.ts'
import { workflowBundlePath } from '../../src/programs/workflow-bundle.ts'
import { holdRule } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { mail, read, useTestStack, withholdOutbox, type FakeReads, type Stack } from './worker-fixture.ts'
import { createContext } from '../../src/programs/create-context.ts'
import type { StartRequest } from '../../src/governance/delivery/workflow-engine.ts'
import { keepDefaultQueue, setQueue } from '../../src/governance/delivery/task-queue.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { auditOf } from '../governance/support.ts'
import { programEnv } from '../support/program-env.ts'

let stack: Stack

describe('somebody with access to Temporal, but not to our database, tries to get a call executed:', () => {
  let reads: FakeReads
  useTestStack(
    (...both) => ([stack, reads] = both),
    // No reconciler runs, so that workflows started by hand stay as they are.
    { RECONCILE_SECONDS: '3600' },
    async (started) => {
      await withholdOutbox(started)
      await started.startWorker()
    },
  )

  const skeleton = (id: string, over: Partial<SkeletonStep> = {}): SkeletonStep => ({
    id,
    activity: 'file_read',
    summary: '',
    dependsOn: [],
    forEach: false,
    continueOnError: false,
    timeoutSeconds: 5,
    ...over,
  })

  const bare = {
    interpreterVersion: 1,
    steps: [],
    gated: false,
    heartbeatSeconds: 2,
    searchAttributes: false,
  }

  /** Starts a workflow by hand; returns how it ended in Temporal. */
  async function forge(workflowId: string, input: Partial<RunInput>): Promise<string> {
    const handle = await stack.client.workflow.start(workflowType, {
      workflowId,
      taskQueue: stack.context.config.temporal.taskQueue,
      args: [{ ...bare, runId: workflowId, ...input }],
    })
    return handle.result().then(
      () => 'completed',
      () => 'failed',
    )
  }

  /** A run whose own workflow does not start, because the test has called `withholdOutbox`. */
  const orphan = (...steps: object[]): Promise<string> => stack.run({ steps })

  describe('a workflow that was not started by us', () => {
    test('for another run executes nothing and ends nothing', async () => {
      const runId = await orphan(read('a', 'a'))
      await forge(`other-${runId}`, { runId, steps: [skeleton('a')] })
      await forge(`finisher-${runId}`, { runId })
      expect(await stack.runOf(runId)).toMatchObject({ status: 'queued', finished_at: null })
      expect(reads.calls.size).toBe(0)
    })

    test.each([
      ['run_none', { steps: [skeleton('a')] }],
      ['run_none2', { gated: true }],
    ])(
      'for a run of another database executes nothing and is left to that database’s worker: %s',
      async (runId, input) => {
        const ended = forge(runId, input)
        const handle = stack.client.workflow.getHandle(runId)
        await until('a worker has refused it once', async () => {
          const { raw } = await handle.describe().catch(() => ({ raw: null }))
          const local = await handle.fetchHistory().catch(() => null)
          return (
            raw?.pendingActivities?.some((activity) => activity.lastFailure) === true ||
            local?.events?.some((event) => event.workflowTaskStartedEventAttributes) === true
          )
        })
        expect(reads.calls.size).toBe(0)
        expect((await handle.describe()).status.name).toBe('RUNNING')
        await handle.terminate()
        expect(await ended).toBe('failed')
      },
    )

    test.each([
      ['an unknown step', [skeleton('zz')]],
      ['another tool', [skeleton('a', { activity: 'mail_send' })]],
      ['missing dependencies', [skeleton('b')]],
      ['an item of a step without items', [skeleton('a', { forEach: true })]],
      ['an item before the step is expanded', [skeleton('each')]],
      ['no steps at all', []],
    ])('with %s executes nothing, and the run does not count as completed', async (_name, steps) => {
      const items = read('each', '{{item}}', { for_each: ['x', 'y'] })
      const runId = await orphan(read('a', 'a'), read('b', 'b', { depends_on: ['a'] }), items)
      await forge(runId, { steps })
      expect(reads.calls.size).toBe(0)
      expect((await stack.runOf(runId)).status).toBe('failed')
    })

    test('for a run that waits for its approval executes nothing', async () => {
      await stack.settings({ approval_required_from: 'low' })
      const runId = await orphan(read('a', 'a'), read('each', '{{item}}', { for_each: ['x'] }))
      await stack.settings({ approval_required_from: null })
      await forge(runId, { steps: [skeleton('a'), skeleton('each', { forEach: true })], gated: false })
      expect(reads.calls.size).toBe(0)
      expect(await stack.runOf(runId)).toMatchObject({ status: 'failed', nodes_executed: 0 })
      expect((await stack.approvalsOf(runId))[0]).toMatchObject({ status: 'cancelled' })
    })
  })

  describe('a forged wake', () => {
    test('executes nothing: the row decides, and the call stays held by the same approval', async () => {
      await stack.rules(holdRule())
      const runId = await orphan(mail('forged'))
      const ended = forge(runId, { steps: [skeleton('forged', { activity: 'mail_send' })] })
      await until('held', async () => (await stack.runOf(runId)).status === 'paused')
      const handle = stack.client.workflow.getHandle(runId)
      const asked = async () => {
        const { events } = await handle.fetchHistory()
        return events?.filter((event) => event.activityTaskFailedEventAttributes).length ?? 0
      }
      await handle.signal(wakeSignal, { key: 'forged#-1' })
      await until('asked again', async () => (await asked()) >= 2)
      await handle.signal(wakeSignal)
      await until('and again', async () => (await asked()) >= 3)
      await handle.signal(wakeSignal, { key: 17, approved: true })
      expect(await stack.stepOf(runId, 'forged')).toMatchObject({ status: 'held' })
      expect(await stack.approvalsOf(runId)).toMatchObject([{ status: 'pending' }])
      expect(stack.sink.count('forged')).toBe(0)
      await handle.cancel()
      await stack.ended(runId)
      await ended
    })
  })

  describe('a worker without the interceptor', () => {
    test('runs no body', async () => {
      const { temporal } = stack.context.config
      const runId = await orphan(read('a', 'a'))
      const connection = await NativeConnection.connect({ address: temporal.address })
      const worker = await Worker.create({
        connection,
        namespace: temporal.namespace,
        taskQueue: 'bare',
        workflowBundle: { codePath: await workflowBundlePath() },
        activities: { ...createToolActivities(), finishRun: async () => 'completed' },
      })
      const result = await worker.runUntil(async () => {
        const handle = await stack.client.workflow.start(workflowType, {
          workflowId: runId,
          taskQueue: 'bare',
          args: [{ ...bare, runId, steps: [skeleton('a')] }],
        })
        await handle.result()
        const { events } = await handle.fetchHistory()
        return events?.find((event) => event.activityTaskFailedEventAttributes)
          ?.activityTaskFailedEventAttributes?.failure
      })
      await connection.close()
      expect(result).toMatchObject({ message: 'the call was not decided by a rule' })
      expect(reads.calls.size).toBe(0)
    })

    test.each([undefined, {}, { call: {}, context: {} }, { runId: 'run_1', stepId: 'a', itemIndex: null }])(
      'nor with an argument that looks decided: %j',
      async (argument) => {
        const body = createToolActivities()['file_read'] as (decided: unknown) => Promise<unknown>
        await expect(body(argument)).rejects.toThrow('the call was not decided by a rule')
        expect(reads.calls.size).toBe(0)
      },
    )
  })

  describe('the data that Temporal stores and shows', () => {
    test('never contains an input, parameter or output', async () => {
      const canary = 'c4n4ry-in-the-coal-mine'
      await stack.rules(holdRule())
      const runId = await stack.run(
        {
          inputs: { secret: { type: 'string' } },
          steps: [
            read('a', '{{input.secret}}'),
            read('bad', 'fail-{{a.output.text}}', { on_error: 'continue' }),
            read('crash', 'crash-{{a.output.text}}', { on_error: 'continue' }),
            read('each', '{{item}}', { for_each: ['{{a.output.text}}'] }),
            read('wrong', 'x', { for_each: '{{a.output.text}}', on_error: 'continue' }),
            mail('held', {
              depends_on: ['a'],
              params: { to: 'a@b.test', subject: '{{input.secret}}', text: canary },
            }),
          ],
          result: { secret: '{{a.output.text}}' },
        },
        { secret: canary },
      )
      await startRun(stack.context, stack.motor, stack.attributes, runId)
      await stack.vote(await stack.held(runId), 'admin')
      await stack.client.workflow.getHandle(runId).signal(wakeSignal)
      const ended = { run: 'completed', bad: 'failed', crash: 'failed', wrong: 'failed' }
      expect(await stack.ended(runId)).toMatchObject(ended)
      expect((await stack.readRun(runId))?.result).toEqual({ secret: expect.stringContaining(canary) })
      const handle = stack.client.workflow.getHandle(runId)
      await handle.result()
      const history = await handle.fetchHistory()
      const texts = textsIn(history)
      expect(texts.length).toBeGreaterThan(100)
      expect(texts.some((text) => text.includes('held'))).toBe(true)
      expect(texts.filter((text) => text.includes(canary))).toEqual([])
      expect(textsIn((await handle.describe()).raw).filter((text) => text.includes(canary))).toEqual([])
      expect(await stack.eventsOf(runId)).toContain('run.completed')
    })
  })

  /** Every text in a value, and its text decoded from base64. */
  function textsIn(value: unknown): string[] {
    if (typeof value === 'string') return [value, Buffer.from(value, 'base64').toString('utf8')]
    if (value instanceof Uint8Array) return [Buffer.from(value).toString('utf8')]
    if (typeof value !== 'object' || value === null) return []
    return Object.entries(value).flatMap(([key, each]) => [key, ...textsIn(each)])
  }
})

describe('the task queue of an organization', () => {
  useTestStack((started) => (stack = started))

  const conflict = { code: 'conflict' }
  const set = (queue: string | null, client = stack.client) =>
    setQueue(stack.context, client, stack.organizationId, queue)
  const ofRun = async (runId: string) => (await stack.client.workflow.getHandle(runId).describe()).taskQueue

  test('an organization gets separate workers: its new runs start there, and after the reset on the shared queue again', async () => {
    const { context, organizationId } = stack
    const shared = context.config.temporal.taskQueue
    const own = `own-${randomBytes(4).toString('hex')}`
    await expect(set(own)).rejects.toMatchObject(conflict)
    const before = await stack.run({ steps: [read('a', 'wait')] })
    const worker = await stack.startWorker({ temporal: { ...context.config.temporal, taskQueue: own } })
    // The server learns of a worker's pollers a moment after the worker has started.
    await until('the worker polls', () => set(own).then(Boolean, () => false))
    await set(null)
    const view = await set(own)
    expect(view).toEqual({ organization_id: organizationId, task_queue: own, runs_in_flight: 1 })
    const [entry] = await auditOf(context, organizationId, 1)
    expect(entry?.event_type).toBe('organization.queue_changed')
    const there = await stack.run({ steps: [read('a', 'a')] })
    expect(await stack.ended(there)).toMatchObject({ run: 'completed' })
    expect([await ofRun(before), await ofRun(there)]).toEqual([shared, own])
    await set(null)
    await worker.stop()
    const back = await stack.run({ steps: [read('a', 'a')] })
    expect(await stack.ended(back)).toMatchObject({ run: 'completed' })
    expect(await ofRun(back)).toBe(shared)
  })

  test('a queue whose workers have died is refused, though Temporal still lists them', async () => {
    // A stand-in, because a real worker would have to be dead for more than a minute.
    const lastSeen = (secondsAgo: number) => {
      const pollers = [{ lastAccessTime: { seconds: Math.floor(Date.now() / 1_000) - secondsAgo } }]
      const workflowService = { value: { describeTaskQueue: async () => ({ pollers }) } }
      return Object.create(stack.client, { workflowService }) as typeof stack.client
    }
    await expect(set('gone', lastSeen(200))).rejects.toMatchObject(conflict)
    await set('there', lastSeen(50))
    await set(null)
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

  /** `npm run set-queue` beside a stack with this database and Temporal server. */
  function setQueueBeside(temporalAddress: string, ...args: string[]) {
    const { config } = stack.context
    const folder = temporaryFolder()
    const { namespace } = config.temporal
    const addresses = {
      database_url: config.database.url,
      temporal_address: temporalAddress,
      temporal_namespace: namespace,
    }
    writeFileSync(join(folder, 'bootstrap.json'), JSON.stringify(addresses))
    const program = fileURLToPath(new URL('../../src/programs/set-queue.ts', import.meta.url))
    const key = config.encryptionKeys[0]?.toString('base64')
    const env = { ...programEnv(), DATA_DIR: folder, DATA_ENCRYPTION_KEY: key }
    return promisify(execFile)(process.execPath, [program, ...args], { env })
  }

  test('`npm run set-queue` asks the Temporal server of the stack in the data folder', async () => {
    const { context, organizationId } = stack
    const { address, taskQueue } = context.config.temporal
    const { stdout } = await setQueueBeside(address, organizationId, taskQueue)
    expect(JSON.parse(stdout)).toMatchObject({ organization_id: organizationId, task_queue: taskQueue })
    // Nothing listens on port 1. Removing the queue needs no Temporal.
    await setQueueBeside('127.0.0.1:1', organizationId, '--default')
  })

  test.each([
    ['no worker polls the queue', 'ours', null, 'no worker polls the task queue `acme`'],
    ['Temporal is away', 'ours', '127.0.0.1:1', 'Temporal cannot be reached at `127.0.0.1:1`'],
    [
      'the organization does not exist, before anything else',
      'org_none',
      '127.0.0.1:1',
      'no organization `org_none`',
    ],
  ])('`npm run set-queue` refuses a queue if %s', async (_, organization, address, message) => {
    const { context, organizationId } = stack
    const id = organization === 'ours' ? organizationId : organization
    const refused = setQueueBeside(address ?? context.config.temporal.address, id, 'acme')
    const stderr = expect.stringContaining(`error: ${message}`)
    await expect(refused).rejects.toMatchObject({ code: 1, stderr })
  })
})
