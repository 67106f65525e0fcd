import { expect, test } from '@jest/globals'
import { reconcile } from '../../src/governance/delivery/reconciler.ts'
import { cancelRun } from '../../src/governance/runs/end/cancel.ts'
import { approvalsOf, eventsOf, holdRule, runOf } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { deliverOutbox, mail, read, useTestStack, withholdOutbox, type FakeReads, type Stack } from './worker-fixture.ts' // prettier-ignore

/* A run is cancelled in every possible state; continue-as-new.test.ts tests the moments around continue-as-new. */

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both), { RECONCILE_SECONDS: '3600' })

const start = (...steps: object[]) => stack.run({ steps })
const cancel = (runId: string) => cancelRun(stack.context, { caller: stack.caller('member'), runId })
const pass = () => reconcile(stack.context, stack.motor, stack.attributes, 0)

/** Checks that the run ended as cancelled, with one such event as its last one, and that nothing waits any more. */
async function isCancelled(runId: string, steps: Record<string, string>): Promise<void> {
  expect(await stack.ended(runId)).toEqual({ run: 'cancelled', ...steps })
  expect(await runOf(stack.context, runId)).toMatchObject({
    status_reason: expect.stringMatching(/^the run was cancelled by `/),
  })
  const events = await eventsOf(stack.context, runId)
  expect(events.filter((type) => type.startsWith('run.')).at(-1)).toBe('run.cancelled')
  expect(events.at(-1)).toBe('run.cancelled')
  const approvals = await approvalsOf(stack.context, runId)
  expect(approvals.filter((each) => each.status === 'pending')).toEqual([])
}

test('before its workflow has started: no call is made', async () => {
  await withholdOutbox(stack)
  const runId = await start(read('a', 'a'), read('b', 'b', { depends_on: ['a'] }))
  await cancel(runId)
  await deliverOutbox(stack)
  expect(await stack.motor.describe(runId)).toBe('missing')
  await pass()
  await isCancelled(runId, { a: 'cancelled', b: 'cancelled' })
  expect(reads.calls.size).toBe(0)
})

test('while it waits for its own approval', async () => {
  await stack.settings({ approval_required_from: 'low' })
  try {
    const runId = await start(read('a', 'a'))
    await stack.held(runId)
    await cancel(runId)
    await isCancelled(runId, { a: 'cancelled' })
    expect(await approvalsOf(stack.context, runId)).toMatchObject([{ kind: 'run', status: 'cancelled' }])
  } finally {
    await stack.settings({ approval_required_from: null })
  }
})

test('while a step waits a long time for its next attempt', async () => {
  const retry = { attempts: 3, backoff_seconds: 3600 }
  const runId = await start(read('a', 'flaky', { retry, on_error: 'continue' }), read('b', 'b', { depends_on: ['a'] })) // prettier-ignore
  const state = async () =>
    (await stack.context.db.selectFrom('effects').select('state').where('run_id', '=', runId).execute())[0]
      ?.state
  await until('the first attempt failed', async () => (await state()) === 'retry')
  await cancel(runId)
  await isCancelled(runId, { a: 'cancelled', b: 'cancelled' })
  expect(Object.fromEntries(reads.calls)).toEqual({ flaky: 1 })
})

test('during a `for_each`: finished items stay finished, no further item begins', async () => {
  const items = ['a', 'b', ...Array.from({ length: 50 }, (_, index) => `wait-${index}`), 'next']
  const runId = await start(read('each', '{{item}}', { for_each: items, on_error: 'continue' }))
  await until('every place is taken', () => reads.waiting() === 10 && reads.calls.size === 12)
  await cancel(runId)
  await isCancelled(runId, { each: 'cancelled' })
  expect(reads.calls.has('next')).toBe(false)
  expect(await runOf(stack.context, runId)).toMatchObject({ nodes_executed: 2 })
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
  await until('an outcome is unknown', async () => (await eventsOf(stack.context, runId)).includes('step.unknown_outcome')) // prettier-ignore
  await cancel(runId)
  await isCancelled(runId, { m: 'unknown_outcome' })
  expect(stack.sink.count('m0')).toBe(0)
})

test('while branches are held, read and wait for others, all at once', async () => {
  await stack.rules(holdRule())
  const runId = await start(mail('held'), read('reads', 'wait'), read('waits', 'x', { depends_on: ['reads', 'held'] })) // prettier-ignore
  await stack.held(runId)
  await until('it reads', () => reads.waiting() === 1)
  await cancel(runId)
  await isCancelled(runId, { held: 'cancelled', reads: 'cancelled', waits: 'cancelled' })
})
