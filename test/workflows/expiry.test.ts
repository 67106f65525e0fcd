import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { TestWorkflowEnvironment } from '@temporalio/testing'
import { Worker } from '@temporalio/worker'
import { createEngineActivities } from '../../src/activities/engine.ts'
import { createPolicyInterceptor } from '../../src/activities/policy-interceptor.ts'
import { createToolActivities } from '../../src/activities/tool-activities.ts'
import { createWorkflowEngine } from '../../src/governance/delivery/workflow-engine.ts'
import { startRun } from '../../src/governance/delivery/relay.ts'
import { workflowBundlePath } from '../../src/programs/workflow-bundle.ts'
import {
  approvalsOf,
  holdRule,
  makeLate,
  runOf,
  startEngine,
  type Engine,
} from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { closed } from './histories.ts'
import { timeSkippingServer } from './time-skipping.ts'
import { fakeReads, mail, read } from './worker-fixture.ts'

/** The server skips seven days in a moment. Only the run's own timer wakes the run, since no sweeper runs here. */
let engine: Engine
let temporal: TestWorkflowEnvironment
let codePath: string
beforeAll(async () => {
  const path = await timeSkippingServer()
  temporal = await TestWorkflowEnvironment.createTimeSkipping({
    server: { executable: { type: 'existing-path', path } },
  })
  engine = await startEngine()
  codePath = await workflowBundlePath()
})
afterAll(async () => {
  await engine?.close()
  await temporal?.teardown()
})

const startWorker = () =>
  Worker.create({
    connection: temporal.nativeConnection,
    taskQueue: engine.context.config.temporal.taskQueue,
    workflowBundle: { codePath },
    activities: { ...createEngineActivities(engine.context), ...createToolActivities() },
    interceptors: { activity: [createPolicyInterceptor(engine.context)] },
  })
const startInTime = (runId: string) =>
  startRun(engine.context, createWorkflowEngine(temporal.client), async () => false, runId)

test.each([
  [
    'a held step',
    null,
    { status: 'expired', status_reason: 'step `m` ended the run: nobody approved it in time' },
  ],
  ['a whole run', 'low', { status: 'expired', status_reason: 'nobody approved the run in time' }],
] as const)('%s expires by its durable timer', async (_name, from, expected) => {
  const { context } = engine
  await engine.settings({ approval_required_from: from })
  await engine.rules(holdRule())
  const worker = await startWorker()
  await worker.runUntil(async () => {
    const runId = await engine.run({ steps: [mail('m')] })
    await startInTime(runId)
    await until('an approval waits', async () => (await approvalsOf(context, runId)).length === 1)
    const [approval] = await approvalsOf(context, runId)
    const days = (approval?.expires_at?.getTime() ?? 0) - (approval?.created_at.getTime() ?? 0)
    expect(days).toBe(7 * 24 * 3600 * 1000)
    const handle = temporal.client.workflow.getHandle(runId)
    const startsTimer = async () =>
      (await handle.fetchHistory()).events?.some((event) => event.timerStartedEventAttributes) ?? false
    await until('the timer runs', startsTimer)
    // Makes the approval late for the database, because the database's clock decides. Awaiting the run's result makes
    // the server skip the run's time.
    await makeLate(context, approval?.id ?? '')
    await closed(temporal, runId)
    expect(await runOf(context, runId)).toMatchObject(expected)
    expect((await approvalsOf(context, runId))[0]).toMatchObject({ status: 'expired' })
  })
})

test('a step waits between its attempts as long as `backoff_seconds` says, doubled each time', async () => {
  await engine.settings({ approval_required_from: null })
  const reads = fakeReads()
  const worker = await startWorker()
  try {
    await worker.runUntil(async () => {
      const retry = { attempts: 4, backoff_seconds: 600 }
      const runId = await engine.run({ steps: [read('a', 'wait', { timeout_seconds: 1, retry })] })
      await startInTime(runId)
      const handle = temporal.client.workflow.getHandle(runId)
      await closed(temporal, runId)
      expect(await runOf(engine.context, runId)).toMatchObject({ status: 'failed' })
      expect(reads.calls.get('wait')).toBe(4)
      const { events } = await handle.fetchHistory()
      const at = (
        attributes: 'workflowExecutionStartedEventAttributes' | 'activityTaskStartedEventAttributes',
      ) => Number(events?.find((event) => event[attributes])?.eventTime?.seconds)
      // The first attempt is a quick call. Pauses of 10, 20 and 40 minutes follow. The server records only the start of
      // the last attempt.
      const waited = at('activityTaskStartedEventAttributes') - at('workflowExecutionStartedEventAttributes')
      expect(waited).toBeGreaterThanOrEqual(600 + 1_200 + 2_400)
      expect(waited).toBeLessThan(600 + 1_200 + 2_400 + 300)
    })
  } finally {
    reads.restore()
  }
})
