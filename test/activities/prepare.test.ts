import { describe, expect, test } from '@jest/globals'
import { prepareCall } from '../../src/activities/prepare.ts'
import type { ToolDeclaration } from '../../src/catalog/tool.ts'
import type { Context } from '../../src/governance/context.ts'
import { cancelRun } from '../../src/governance/runs/end/cancel.ts'
import { expandStep } from '../../src/governance/runs/effects/items.ts'
import { readCallSpec } from '../../src/governance/runs/values/call-spec.ts'
import { freeze, unfreeze } from '../../src/governance/rules/freeze.ts'
import { effectOf, useEngine, type Engine } from '../governance/runs/engine-fixture.ts'
import { call, done, read, set } from '../governance/runs/values/labelled-calls.ts'

let engine: Engine
useEngine((started) => (engine = started))

const untouchable = (what: string): never =>
  new Proxy(
    {},
    {
      get: (_, name) => {
        throw new Error(`${what}.${String(name)} was used`)
      },
    },
  ) as never

/** The parts of the context that load values fail the test when they are used. */
const unread = (): Context => {
  const { runCaches } = engine.context
  const loads = untouchable('loads')
  const values = untouchable('values')
  return { ...engine.context, runCaches: { ...runCaches, loads, outputs: values, inputs: values } }
}

/** A run whose step `t` reads the output of `s`, which has ended, and whose step `each` goes over it. */
async function started(): Promise<string> {
  const runId = await engine.run({
    steps: [
      read('s', 'a.md'),
      set('t', '{{s.output.text}}'),
      set('each', '{{item}}', { for_each: '{{s.output.list}}' }),
    ],
  })
  await done(engine, runId, 's', { text: 'x', list: [1, 2] })
  return runId
}
const cancel = (runId: string) => cancelRun(engine.context, { caller: engine.caller('member'), runId })
const whileFrozen = async (work: () => Promise<void>): Promise<void> => {
  await freeze(engine.context, engine.caller('owner'), 'incident', performance.now(), null)
  try {
    await work()
  } finally {
    await unfreeze(engine.context, engine.caller('owner'), 'over', performance.now(), null)
  }
}
/** Makes the call ready and decides it, with nothing that could be read. */
async function decide(runId: string): Promise<unknown> {
  const spec = await readCallSpec(engine.context, { runId, stepId: 't', itemIndex: -1 })
  const context = { ...unread(), db: untouchable('db') }
  const { value } = await prepareCall(context, spec, spec.tool as ToolDeclaration, AbortSignal.abort())
  return engine.decide(value)
}

describe('nothing is read for a call that can only end', () => {
  test('because it was cancelled', async () => {
    const runId = await started()
    await cancel(runId)
    expect(await decide(runId)).toMatchObject({ state: 'cancelled' })
    expect(await expandStep(unread(), runId, 'each')).toEqual({ ended: 'cancelled' })
  })

  test('because it has ended', async () => {
    const runId = await started()
    await done(engine, runId, 't', {})
    expect(await decide(runId)).toMatchObject({ state: 'completed' })
  })

  test('because its organization is frozen', async () => {
    const runId = await started()
    await whileFrozen(async () => {
      expect(await expandStep(unread(), runId, 'each')).toEqual({ ended: 'denied' })
      expect(await decide(runId)).toMatchObject({ state: 'denied' })
    })
  })

  test('because its organization is frozen, although its parameters are sealed; the decision names them', async () => {
    const runId = await started()
    const { op } = await call(engine, runId, 't')
    await whileFrozen(async () => {
      expect(await decide(runId)).toMatchObject({ state: 'denied' })
    })
    const last = await engine.context.db
      .selectFrom('decisions')
      .select(['verdict', 'params_hash'])
      .where('run_id', '=', runId)
      .orderBy('seq', 'desc')
      .executeTakeFirstOrThrow()
    expect(last).toEqual({ verdict: 'deny', params_hash: op.paramsHash })
    expect(await effectOf(engine.context, op)).toMatchObject({ params_hash: op.paramsHash })
  })
})
