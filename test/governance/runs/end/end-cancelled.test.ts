import { expect, test } from '@jest/globals'
import { cancelRun } from '../../../../src/governance/runs/end/cancel.ts'
import { endCancelled } from '../../../../src/governance/runs/end/end-cancelled.ts'
import { go, mark, opOf, outcomeOf, runOf, stepOf, toolOf, useEngine, type Engine, type StepOp } from '../engine-fixture.ts' // prettier-ignore

/* Cancelled runs whose workers no longer answer. */

let engine: Engine
useEngine((started) => (engine = started))

const cancel = (op: StepOp) =>
  cancelRun(engine.context, { caller: engine.caller('member'), runId: op.key.runId })
const statusOf = async (op: StepOp) => (await runOf(engine.context, op.key.runId)).status
/** Makes every open cancellation one minute older. */
const later = () =>
  engine.context.pool.query(`update runs set cancel_requested_at = cancel_requested_at - interval '1 minute'
                             where finished_at is null and cancel_requested_at is not null`)

test('a run with no call in progress ends with its cancellation', async () => {
  const op = opOf(await engine.run())
  await cancel(op)
  expect(await statusOf(op)).toBe('cancelled')
  await cancel(op)
  expect(await engine.decide(op)).toMatchObject({ go: false, state: 'cancelled' })
})

test('a call in progress gets a moment to end, then the run ends without it', async () => {
  const op = opOf(await engine.run(), { tool: toolOf('free') })
  await go(engine, op)
  await cancel(op)
  expect(await endCancelled(engine.context)).toBe(0)
  expect(await statusOf(op)).toBe('running')
  await later()
  expect(await endCancelled(engine.context)).toBe(1)
  expect(await statusOf(op)).toBe('cancelled')
  expect(await engine.record(outcomeOf(op, 1, 'completed'))).toBe('cancelled')
  expect(await endCancelled(engine.context)).toBe(0)
})

test('a mail before its point of no return is not sent', async () => {
  const op = opOf(await engine.run())
  await go(engine, op)
  await cancel(op)
  await later()
  expect(await endCancelled(engine.context)).toBe(1)
  expect(await mark(engine.context, op, 1)).toBe('superseded')
})

async function cancelledWhileSent(item = -1): Promise<StepOp> {
  const op = opOf(await engine.run(), { item })
  await go(engine, op)
  await mark(engine.context, op, 1)
  await cancel(op)
  return op
}
const stepStatusOf = async (op: StepOp) => (await stepOf(engine.context, op.key.runId)).status

test('a call that may have acted also gets a moment to end; then the run ends, and nothing is sent again', async () => {
  const op = await cancelledWhileSent()
  expect(await endCancelled(engine.context)).toBe(0)
  await later()
  expect(await endCancelled(engine.context)).toBe(1)
  expect(await statusOf(op)).toBe('cancelled')
  expect(await stepStatusOf(op)).toBe('unknown_outcome')
  expect(await engine.decide(op)).toMatchObject({ go: false, state: 'cancelled' })
  expect(await mark(engine.context, op, 1)).toBe('superseded')
})

test('the worker of such a call records its outcome in the ended run', async () => {
  const op = await cancelledWhileSent()
  await later()
  expect(await endCancelled(engine.context)).toBe(1)
  expect(await engine.record(outcomeOf(op, 1, 'completed'))).toBe('completed')
  expect(await stepStatusOf(op)).toBe('completed')
  expect(await statusOf(op)).toBe('cancelled')
})

test('a late outcome of an item changes the item, but not the ended step', async () => {
  const op = await cancelledWhileSent(0)
  await later()
  await endCancelled(engine.context)
  expect(await engine.record(outcomeOf(op, 1, 'completed'))).toBe('completed')
  expect(await stepStatusOf(op)).toBe('unknown_outcome')
})
