import { expect, test } from '@jest/globals'
import { readOutputs } from '../../../../src/governance/runs/values/outputs.ts'
import { SharedValues } from '../../../../src/governance/runs/values/shared-values.ts'
import { go, opOf, outcomeOf, toolOf, useEngine, type Engine } from '../engine-fixture.ts'

let engine: Engine
useEngine((started) => (engine = started))

test('callers that ask at the same time share one making, also one that fails', async () => {
  const values = new SharedValues<object>(1_000)
  let made = 0
  const making = Promise.withResolvers<{ value: object; bytes: number }>()
  const make = () => {
    made += 1
    return making.promise
  }
  const asked = Array.from({ length: 100 }, () => values.get('a', make))
  const value = {}
  making.resolve({ value, bytes: 10 })
  for (const each of await Promise.all(asked)) expect(each).toBe(value)
  expect(await values.get('a', make)).toBe(value)
  expect(made).toBe(1)

  let failed = 0
  const fail = async (): Promise<never> => {
    failed += 1
    throw new Error('it cannot be read')
  }
  const results = await Promise.allSettled([values.get('b', fail), values.get('b', fail)])
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(failed).toBe(1)
  expect(await values.get('b', async () => ({ value, bytes: 1 }))).toBe(value)
})

test('items that read an output at the same time share one parsed value', async () => {
  const op = opOf(await engine.run(), { tool: toolOf('free') })
  await engine.record(outcomeOf(op, await go(engine, op), 'completed'))
  const { context } = engine
  const all = await Promise.all(
    Array.from({ length: 50 }, () => readOutputs(context, op.key.runId, [op.key.stepId])),
  )
  const [first] = all.map((each) => each.get('s'))
  expect(first).toEqual({ ok: true })
  for (const each of all) expect(each.get('s')).toBe(first)
})
