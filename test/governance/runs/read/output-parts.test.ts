import { expect, test } from '@jest/globals'
import { expandStep } from '../../../../src/governance/runs/effects/items.ts'
import { cancelRun } from '../../../../src/governance/runs/end/cancel.ts'
import { finishRun } from '../../../../src/governance/runs/end/finish.ts'
import { readOutputParts } from '../../../../src/governance/runs/read/output-parts.ts'
import {
  denyRule,
  go,
  hold,
  holdRule,
  makeLate,
  opOf,
  outcomeOf,
  stepOf,
  useEngine,
  type Engine,
  type StepOp,
} from '../engine-fixture.ts'
import { readRun } from '../whole-run.ts'

let engine: Engine
useEngine((started) => (engine = started))

const outputsOf = async (runId: string) =>
  (await readRun(engine.context, engine.organizationId, runId))?.outputs
const wholeOutput = async (runId: string): Promise<unknown> =>
  JSON.parse(await (await readOutputParts(engine.context, engine.organizationId, runId, 's')).text())

const held = async (op: StepOp): Promise<string> => {
  await engine.rules(holdRule())
  return hold(engine, op)
}
const cancel = (runId: string) => cancelRun(engine.context, { caller: engine.caller('member'), runId })

test.each<[string, (op: StepOp) => Promise<unknown>]>([
  ['denied', () => engine.rules(denyRule())],
  ['rejected', async (op) => engine.vote(await held(op), 'admin', 'reject')],
  ['expired', async (op) => makeLate(engine.context, await held(op))],
  [
    'cancelled',
    async (op) => {
      await held(op)
      await cancel(op.key.runId)
    },
  ],
])('a step that was %s has null', async (status, act) => {
  const op = opOf(await engine.run())
  expect(await outputsOf(op.key.runId)).toEqual({})
  await act(op)
  await engine.decide(op)
  expect(await stepOf(engine.context, op.key.runId)).toMatchObject({ status })
  expect(await outputsOf(op.key.runId)).toEqual({ s: null })
  expect(await wholeOutput(op.key.runId)).toBeNull()
})

test('a `for_each` has outputs when it has ended, and each output is at the place of its item', async () => {
  const items = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' }, for_each: [1, 2, 3, 4] }] }
  const runId = await engine.run(items)
  await expandStep(engine.context, runId, 's')
  const late = opOf(runId, { item: 2 })
  await go(engine, late)
  await engine.record(outcomeOf(late, 1, 'completed'))
  expect(await outputsOf(runId)).toEqual({})
  expect(await wholeOutput(runId)).toEqual([null, null, { ok: true }, null])
  // An item that is in progress has a row, but no output.
  await go(engine, opOf(runId, { item: 1 }))
  expect(await outputsOf(runId)).toEqual({})
  await finishRun(engine.context, { runId, status: 'failed' })
  const places = [null, null, { ok: true }, null]
  expect(await outputsOf(runId)).toEqual({ s: places })
  expect(await wholeOutput(runId)).toEqual(places)
})
