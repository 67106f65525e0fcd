import { describe, expect, test } from '@jest/globals'
import { reconcile } from '../../src/governance/delivery/reconciler.ts'
import { resolveStep } from '../../src/governance/runs/effects/resolve.ts'
import { approvalsOf, holdRule, runOf, stepOf } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import type { WorkflowEngine } from '../../src/governance/delivery/workflow-engine.ts'
import {
  deliverOutbox,
  mail,
  read,
  useTestStack,
  withholdOutbox,
  type FakeReads,
  type Stack,
} from './worker-fixture.ts'

let stack: Stack
let reads: FakeReads
// The tests start reconciliation themselves.
useTestStack((...both) => ([stack, reads] = both), { RECONCILE_SECONDS: '3600' })

const start = (...steps: object[]) => stack.run({ steps })
const handleOf = (runId: string) => stack.client.workflow.getHandle(runId)
const pass = () => reconcile(stack.context, stack.motor, stack.attributes, 0)
/** Waits until the run's workflow has ended in Temporal in this state. */
const goneAs = (runId: string, state: string) =>
  until(`${state} in Temporal`, async () => (await stack.motor.describe(runId)) === state)

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

  test('of a run that has ended executes nothing and changes nothing', async () => {
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

describe('runs that end or disappear in Temporal', () => {
  test('terminated: the reconciler closes the run and withdraws its approvals', async () => {
    await stack.rules(holdRule())
    const runId = await start(mail('terminated'))
    await stack.held(runId)
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

  test('a lost wake-up is sent again once it is due', async () => {
    await stack.rules(holdRule())
    const runId = await start(mail('woken'))
    const approvalId = await stack.held(runId)
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

  test('cancelled there: the run ends as cancelled without help', async () => {
    const runId = await start(read('a', 'wait'))
    await until('it reads', () => reads.waiting() === 1)
    await handleOf(runId).cancel()
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
      items: null,
      outcome,
    })
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
