import { spawn, type ChildProcess } from 'node:child_process'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { reconcile } from '../../src/governance/reconcile.ts'
import { resolveStep } from '../../src/governance/runs/resolve.ts'
import type { RunningWorker } from '../../src/worker.ts'
import { approvalsOf, holdRule, runOf, stepOf } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import type { Motor } from '../../src/governance/motor.ts'
import {
  deliverOutbox,
  fakeReads,
  mail,
  read,
  startTestStack,
  withholdOutbox,
  type FakeReads,
  type Stack,
} from './worker-fixture.ts'

let stack: Stack
let reads: FakeReads
let worker: RunningWorker
beforeAll(async () => {
  // Reconciled by the tests, when they want it.
  stack = await startTestStack({ RECONCILE_SECONDS: '3600' })
  worker = await stack.startWorker()
}, 60_000)
afterAll(() => stack.close(), 60_000)
beforeEach(async () => {
  reads = fakeReads()
  await stack.rules()
  stack.sink.behaviour = { kind: 'accept' }
})
afterEach(() => {
  reads.release()
  reads.restore()
  stack.sink.release()
})

const start = (...steps: object[]) => stack.run({ steps })
const handleOf = (runId: string) => stack.client.workflow.getHandle(runId)
const pending = async (runId: string): Promise<string> => {
  await until('an approval waits', async () => (await approvalsOf(stack.context, runId)).length > 0)
  return (await approvalsOf(stack.context, runId))[0]?.id ?? ''
}
const pass = () => reconcile(stack.context, stack.motor, stack.attributes, 0)
/** The run's workflow has ended in Temporal in this way. */
const goneAs = (runId: string, state: string) =>
  until(`${state} in Temporal`, async () => (await stack.motor.describe(runId)) === state)

describe('a reset in Temporal', () => {
  test('goes through every step again and executes none that has finished', async () => {
    await stack.rules(holdRule())
    const runId = await start(
      read('a', 'a'),
      mail('reset', { depends_on: ['a'] }),
      read('each', '{{item}}', { for_each: ['x', 'y'], depends_on: ['reset'] }),
      read('last', 'wait', { depends_on: ['each'] }),
    )
    await stack.vote(await pending(runId), 'admin')
    await until('the last step reads', () => reads.waiting() === 1)
    const { events } = await handleOf(runId).fetchHistory()
    const first = events?.find((event) => event.workflowTaskCompletedEventAttributes)
    await stack.client.workflowService.resetWorkflowExecution({
      namespace: stack.context.config.temporal.namespace,
      workflowExecution: { workflowId: runId },
      reason: 'test',
      requestId: runId,
      workflowTaskFinishEventId: first?.eventId ?? null,
    })
    await until('the last step reads again', () => reads.calls.get('wait') === 2)
    reads.release()
    expect(await stack.ended(runId)).toMatchObject({
      run: 'completed',
      reset: 'completed',
      last: 'completed',
    })
    expect(Object.fromEntries(reads.calls)).toEqual({ a: 1, x: 1, y: 1, wait: 2 })
    expect(stack.sink.count('reset')).toBe(1)
    expect(await approvalsOf(stack.context, runId)).toHaveLength(1)
  })

  test('of a run that has ended executes nothing and leaves it as it is', async () => {
    const runId = await start(read('a', 'a'), mail('over', { depends_on: ['a'] }))
    await stack.ended(runId)
    await handleOf(runId).result()
    const before = await runOf(stack.context, runId)
    const { events } = await handleOf(runId).fetchHistory()
    const first = events?.find((event) => event.workflowTaskCompletedEventAttributes)
    const { runId: again } = await stack.client.workflowService.resetWorkflowExecution({
      namespace: stack.context.config.temporal.namespace,
      workflowExecution: { workflowId: runId },
      reason: 'test',
      requestId: runId,
      workflowTaskFinishEventId: first?.eventId ?? null,
    })
    await stack.client.workflow.getHandle(runId, again).result()
    expect(reads.calls.get('a')).toBe(1)
    expect(stack.sink.count('over')).toBe(1)
    expect(await runOf(stack.context, runId)).toEqual(before)
  })
})

describe('what ends or goes missing in Temporal', () => {
  test('terminated: the reconciler closes the run and withdraws what waited', async () => {
    await stack.rules(holdRule())
    const runId = await start(mail('terminated'))
    await pending(runId)
    await handleOf(runId).terminate('test')
    await goneAs(runId, 'terminated')
    expect(await pass()).toMatchObject({ closed: 1 })
    expect(await stack.ended(runId)).toEqual({ run: 'cancelled', terminated: 'cancelled' })
    expect(await runOf(stack.context, runId)).toMatchObject({
      status_reason: 'the run was terminated in Temporal',
    })
    expect(await approvalsOf(stack.context, runId)).toMatchObject([{ status: 'cancelled' }])
    expect(await pass()).toEqual({ started: 0, closed: 0, woken: 0 })
  })

  test('a wake-up that was lost: told again, once it is due', async () => {
    await stack.rules(holdRule())
    const runId = await start(mail('woken'))
    const approvalId = await pending(runId)
    expect(await pass()).toEqual({ started: 0, closed: 0, woken: 0 })
    await withholdOutbox(stack)
    await stack.vote(approvalId, 'admin')
    await stack.context.db.deleteFrom('outbox').where('run_id', '=', runId).execute()
    await deliverOutbox(stack)
    expect((await runOf(stack.context, runId)).status).toBe('paused')
    expect(await pass()).toEqual({ started: 0, closed: 0, woken: 1 })
    expect(await stack.ended(runId)).toEqual({ run: 'completed', woken: 'completed' })
    expect(stack.sink.count('woken')).toBe(1)
  })

  test('a cancellation that was lost: told again', async () => {
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

  test('cancelled there: the run ends as cancelled by itself', async () => {
    const runId = await start(read('a', 'wait'))
    await until('it reads', () => reads.waiting() === 1)
    await handleOf(runId).cancel()
    expect(await stack.ended(runId)).toEqual({ run: 'cancelled', a: 'cancelled' })
  })

  test('missing: started, once, however often it is looked for', async () => {
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

  test('a run is looked at again only after a while, so that several workers share the work', async () => {
    const runId = await start(read('a', 'wait'))
    await until('it reads', () => reads.waiting() === 1)
    let looks = 0
    const motor: Motor = {
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

describe('a mail whose fate nobody knows', () => {
  const lose = async (subject: string, taken: boolean): Promise<string> => {
    stack.sink.behaviour = { kind: 'drop', taken }
    const runId = await start(mail(subject), read('after', 'after', { depends_on: [subject] }))
    await until(
      'unknown',
      async () => (await stepOf(stack.context, runId, subject)).status === 'unknown_outcome',
    )
    stack.sink.behaviour = { kind: 'accept' }
    expect(await runOf(stack.context, runId)).toMatchObject({
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
    await resolveStep(stack.context, {
      caller: stack.caller('admin'),
      runId,
      stepId: subject,
      itemIndex: null,
      outcome,
    })
    expect(await stack.ended(runId)).toMatchObject({ run, [subject]: step })
    expect(stack.sink.count(subject)).toBe(mails)
  })

  test('is never sent a second time by itself', async () => {
    const runId = await lose('lost-once', true)
    await handleOf(runId).signal('wake')
    await handleOf(runId).cancel()
    expect(await stack.ended(runId)).toMatchObject({ run: 'cancelled', 'lost-once': 'unknown_outcome' })
    expect(stack.sink.count('lost-once')).toBe(1)
  })
})

describe('workers that stop, die or hang', () => {
  test('a worker that is told to stop in the middle of a read hands it over', async () => {
    await worker.stop()
    const first = await stack.startWorker()
    const runId = await start(read('a', 'wait'))
    await until('it reads', () => reads.waiting() === 1)
    const stopped = first.stop()
    worker = await stack.startWorker()
    await stopped
    await until('it reads again', () => reads.calls.get('wait') === 2 && reads.waiting() === 1)
    reads.release()
    expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed' })
    expect((await stepOf(stack.context, runId, 'a')).attempts).toBe(2)
  }, 60_000)

  describe('whose heartbeats do not arrive', () => {
    beforeEach(async () => {
      await worker.stop()
      // The workflow expects one every two seconds.
      worker = await stack.startWorker({ heartbeatTimeoutSeconds: 60 })
    })

    test('is superseded in a read: the newer attempt counts, once', async () => {
      const runId = await start(read('a', 'deaf'))
      await until('another attempt', () => reads.calls.get('deaf') === 2)
      reads.release()
      expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed' })
      expect((await stepOf(stack.context, runId, 'a')).attempts).toBe(2)
      expect(await runOf(stack.context, runId)).toMatchObject({ nodes_executed: 1 })
    })

    test('after the dot: nobody knows, until the server answers the old attempt after all', async () => {
      stack.sink.behaviour = { kind: 'hold' }
      const runId = await start(mail('slow'))
      await until(
        'unknown',
        async () => (await stepOf(stack.context, runId, 'slow')).status === 'unknown_outcome',
      )
      expect((await runOf(stack.context, runId)).status).toBe('paused')
      stack.sink.release()
      expect(await stack.ended(runId)).toEqual({ run: 'completed', slow: 'completed' })
      expect(stack.sink.count('slow')).toBe(1)
    })
  })

  test('a worker killed after the dot leaves an unknown outcome, not a second mail', async () => {
    await worker.stop()
    const child = await startChild(stack)
    try {
      stack.sink.behaviour = { kind: 'hold' }
      const dots = stack.sink.dots
      const runId = await start(mail('killed'))
      await stack.sink.dotsReached(dots + 1)
      child.kill('SIGKILL')
      await exited(child)
      worker = await stack.startWorker()
      await until(
        'unknown',
        async () => (await stepOf(stack.context, runId, 'killed')).status === 'unknown_outcome',
      )
      expect(stack.sink.count('killed')).toBe(1)
      await handleOf(runId).cancel()
      await stack.ended(runId)
    } finally {
      child.kill('SIGKILL')
    }
  }, 60_000)
})

/** A worker in a process of its own; its first heartbeat in the database says that it polls. */
async function startChild(of: Stack): Promise<ChildProcess> {
  const child = spawn(process.execPath, ['src/worker.ts'], {
    env: { PATH: process.env['PATH'], ...of.environment, APP_ENV: 'test', LOG_LEVEL: 'silent' },
    stdio: 'ignore',
  })
  await until('the child works', async () => {
    if (child.exitCode !== null) throw new Error(`the worker ended with ${child.exitCode}`)
    const rows = await of.context.db.selectFrom('process_heartbeats').select('process_id').execute()
    return rows.some((row) => row.process_id.includes(`-${child.pid}-`))
  })
  return child
}

const exited = (child: ChildProcess): Promise<unknown> =>
  child.exitCode === null && child.signalCode === null
    ? new Promise((resolve) => child.once('exit', resolve))
    : Promise.resolve()
