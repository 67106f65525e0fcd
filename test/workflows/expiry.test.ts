import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { TestWorkflowEnvironment } from '@temporalio/testing'
import { Worker } from '@temporalio/worker'
import { createEngineActivities } from '../../src/activities/engine.ts'
import { createPolicyInterceptor } from '../../src/activities/policy-interceptor.ts'
import { createToolActivities } from '../../src/activities/tool-activities.ts'
import { createMotor } from '../../src/governance/motor.ts'
import { startRun } from '../../src/governance/relay.ts'
import { workflowBundlePath } from '../../src/workflow-bundle.ts'
import {
  approvalsOf,
  holdRule,
  makeLate,
  runOf,
  startEngine,
  type Engine,
} from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { timeSkippingServer } from './time-skipping.ts'
import { mail } from './worker-fixture.ts'

/** Seven days pass in a moment; nothing but the run's own timer wakes it: no sweeper runs here. */
let engine: Engine
let temporal: TestWorkflowEnvironment
beforeAll(async () => {
  const path = await timeSkippingServer()
  temporal = await TestWorkflowEnvironment.createTimeSkipping({
    server: { executable: { type: 'existing-path', path } },
  })
  engine = await startEngine()
})
afterAll(async () => {
  await engine?.close()
  await temporal?.teardown()
})

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
  const worker = await Worker.create({
    connection: temporal.nativeConnection,
    taskQueue: context.config.temporal.taskQueue,
    workflowBundle: { codePath: await workflowBundlePath() },
    activities: { ...createEngineActivities(context), ...createToolActivities() },
    interceptors: { activity: [createPolicyInterceptor(context)] },
  })
  await worker.runUntil(async () => {
    const runId = await engine.run({ steps: [mail('m')] })
    await startRun(context, createMotor(temporal.client, context.config.temporal), async () => false, runId)
    await until('an approval waits', async () => (await approvalsOf(context, runId)).length === 1)
    const [approval] = await approvalsOf(context, runId)
    const days = (approval?.expires_at?.getTime() ?? 0) - (approval?.created_at.getTime() ?? 0)
    expect(days).toBe(7 * 24 * 3600 * 1000)
    const handle = temporal.client.workflow.getHandle(runId)
    const startsTimer = async () =>
      (await handle.fetchHistory()).events?.some((event) => event.timerStartedEventAttributes) ?? false
    await until('the timer runs', startsTimer)
    // The database's clock, which decides, is moved along; the run's own is skipped by awaiting its result.
    await makeLate(context, approval?.id ?? '')
    await handle.result()
    expect(await runOf(context, runId)).toMatchObject(expected)
    expect((await approvalsOf(context, runId))[0]).toMatchObject({ status: 'expired' })
  })
})
