import { expect, test } from '@jest/globals'
import { cancelRun } from '../../../src/governance/runs/cancel.ts'
import { endCancelled } from '../../../src/governance/runs/end-cancelled.ts'
import { go, mark, opOf, outcomeOf, runOf, stepOf, toolOf, useEngine, type Engine, type StepOp } from './engine-fixture.ts' // prettier-ignore

/* Cancelled runs whose workers say nothing any more. */

let engine: Engine
useEngine((started) => (engine = started))

const cancel = (op: StepOp) =>
  cancelRun(engine.context, { caller: engine.caller('member'), runId: op.key.runId })
const statusOf = async (op: StepOp) => (await runOf(engine.context, op.key.runId)).status
/** As if it had been cancelled a while ago. */
const later = () =>
  engine.context.pool.query(`update runs set cancel_requested_at = cancel_requested_at - interval '1 minute'
                             where finished_at is null and cancel_requested_at is not null`)

test('a run with nothing under way ends with its cancellation', async () => {
  const op = opOf(await engine.run())
  await cancel(op)
  expect(await statusOf(op)).toBe('cancelled')
  await cancel(op)
  expect(await engine.decide(op)).toMatchObject({ go: false, state: 'cancelled' })
})

test('a call under way has a moment to end, and then the run ends without it', async () => {
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

test('a mail that has not passed its point of no return is not sent any more', async () => {
  const op = opOf(await engine.run())
  await go(engine, op)
  await cancel(op)
  await later()
  expect(await endCancelled(engine.context)).toBe(1)
  expect(await mark(engine.context, op, 1)).toBe('superseded')
})

test('a call that may have acted is waited for', async () => {
  const op = opOf(await engine.run())
  await go(engine, op)
  await mark(engine.context, op, 1)
  await cancel(op)
  await later()
  expect(await endCancelled(engine.context)).toBe(0)
  await engine.decide(op)
  expect(await endCancelled(engine.context)).toBe(1)
  expect(await stepOf(engine.context, op.key.runId)).toMatchObject({ status: 'unknown_outcome' })
})
