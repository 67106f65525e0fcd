import { describe, expect, test } from '@jest/globals'
import { Worker, NativeConnection } from '@temporalio/worker'
import { createToolActivities } from '../../src/activities/tool-activities.ts'
import { workflowType, wakeSignal, type RunInput, type SkeletonStep } from '../../src/contract/messages.ts'
import { startRun } from '../../src/governance/delivery/relay.ts'
import { readRun } from '../governance/runs/whole-run.ts'
import { workflowBundlePath } from '../../src/programs/workflow-bundle.ts'
import { approvalsOf, eventsOf, holdRule, runOf, stepOf } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { mail, read, useTestStack, withholdOutbox, type FakeReads, type Stack } from './worker-fixture.ts'

/** Somebody with access to Temporal, but not to our database, tries to get a call executed. */

let stack: Stack
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
  tool: 'file_read',
  dependsOn: [],
  forEach: false,
  continueOnError: false,
  timeoutSeconds: 5,
  ...over,
})

/** Starts a workflow by hand; returns how it ended in Temporal. */
async function forge(workflowId: string, input: Partial<RunInput>): Promise<string> {
  const handle = await stack.client.workflow.start(workflowType, {
    workflowId,
    taskQueue: stack.context.config.temporal.taskQueue,
    args: [{ runId: workflowId, interpreterVersion: 1, steps: [], gated: false, heartbeatSeconds: 2, searchAttributes: false, ...input }], // prettier-ignore
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
    expect(await runOf(stack.context, runId)).toMatchObject({ status: 'queued', finished_at: null })
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
    ['another tool', [skeleton('a', { tool: 'mail_send' })]],
    ['missing dependencies', [skeleton('b')]],
    ['an item of a step without items', [skeleton('a', { forEach: true })]],
    ['no steps at all', []],
  ])('with %s executes nothing, and the run does not count as completed', async (_name, steps) => {
    const runId = await orphan(read('a', 'a'), read('b', 'b', { depends_on: ['a'] }))
    await forge(runId, { steps })
    expect(reads.calls.size).toBe(0)
    expect((await runOf(stack.context, runId)).status).toBe('failed')
  })

  test('cannot call an item before the step is expanded', async () => {
    const runId = await orphan(read('each', '{{item}}', { for_each: ['x', 'y'] }))
    await forge(runId, { steps: [skeleton('each')] })
    expect(reads.calls.size).toBe(0)
  })

  test('for a run that waits for its approval executes nothing', async () => {
    await stack.settings({ approval_required_from: 'low' })
    try {
      const runId = await orphan(read('a', 'a'), read('each', '{{item}}', { for_each: ['x'] }))
      await forge(runId, { steps: [skeleton('a'), skeleton('each', { forEach: true })], gated: false })
      expect(reads.calls.size).toBe(0)
      expect(await runOf(stack.context, runId)).toMatchObject({ status: 'failed', nodes_executed: 0 })
      expect((await approvalsOf(stack.context, runId))[0]).toMatchObject({ status: 'cancelled' })
    } finally {
      await stack.settings({ approval_required_from: null })
    }
  })
})

describe('a forged wake', () => {
  test('executes nothing: the row decides, and the call stays held by the same approval', async () => {
    await stack.rules(holdRule())
    const runId = await orphan(mail('forged'))
    const ended = forge(runId, { steps: [skeleton('forged', { tool: 'mail_send' })] })
    await until('held', async () => (await runOf(stack.context, runId)).status === 'paused')
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
    expect(await stepOf(stack.context, runId, 'forged')).toMatchObject({ status: 'held' })
    expect(await approvalsOf(stack.context, runId)).toMatchObject([{ status: 'pending' }])
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
        args: [{ runId, interpreterVersion: 1, steps: [skeleton('a')], gated: false, heartbeatSeconds: 2, searchAttributes: false }], // prettier-ignore
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
          {
            ...mail('held', { depends_on: ['a'] }),
            params: { to: 'a@b.test', subject: '{{input.secret}}', text: canary },
          },
        ],
        result: { secret: '{{a.output.text}}' },
      },
      { secret: canary },
    )
    await startRun(stack.context, stack.motor, stack.attributes, runId)
    await stack.vote(await stack.held(runId), 'admin')
    await stack.client.workflow.getHandle(runId).signal(wakeSignal)
    expect(await stack.ended(runId)).toMatchObject({
      run: 'completed',
      bad: 'failed',
      crash: 'failed',
      wrong: 'failed',
    })
    expect(await readRun(stack.context, stack.organizationId, runId)).toMatchObject({
      result: { secret: expect.stringContaining(canary) },
    })
    const handle = stack.client.workflow.getHandle(runId)
    await handle.result()
    const history = await handle.fetchHistory()
    const texts = textsIn(history)
    expect(texts.length).toBeGreaterThan(100)
    expect(texts.some((text) => text.includes('held'))).toBe(true)
    expect(texts.filter((text) => text.includes(canary))).toEqual([])
    expect(textsIn((await handle.describe()).raw).filter((text) => text.includes(canary))).toEqual([])
    expect(await eventsOf(stack.context, runId)).toContain('run.completed')
  })
})

/** Every text in a value, and its text decoded from base64. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value, Buffer.from(value, 'base64').toString('utf8')]
  if (value instanceof Uint8Array) return [Buffer.from(value).toString('utf8')]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, each]) => [key, ...textsIn(each)])
}
