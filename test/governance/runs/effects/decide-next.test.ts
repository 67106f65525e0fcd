import { describe, expect, test } from '@jest/globals'
import { freeze, unfreeze } from '../../../../src/governance/rules/freeze.ts'
import { decideNext } from '../../../../src/governance/runs/effects/decide-next.ts'
import { recordOutcomes, stillHolds } from '../../../../src/governance/runs/effects/outcome.ts'
import { cancelRun } from '../../../../src/governance/runs/end/cancel.ts'
import { finishRun, finishWithLastCall } from '../../../../src/governance/runs/end/finish.ts'
import { readRunSnapshot } from '../../../../src/governance/runs/values/run-snapshot.ts'
import {
  approvalsOf,
  basisOf,
  denyRule,
  effectOf,
  go,
  holdRule,
  opOf,
  outcomeOf,
  runOf,
  stepOf,
  toolOf,
  useEngine,
  type Engine,
  type StepOp,
} from '../engine-fixture.ts'

/*
 * The decision of the next call, or the end of the run, is saved in the same transaction as the outcome of the call
 * before.
 */

let engine: Engine
useEngine((started) => (engine = started))

const step = { tool: 'memory_get', params: { key: 'k' } }
const twoSteps = { steps: [{ id: 's', ...step }, { id: 't', ...step, depends_on: ['s'] }] } // prettier-ignore
const stop = () => freeze(engine.context, engine.caller('owner'), 'incident', performance.now(), null)
const goOn = () => unfreeze(engine.context, engine.caller('owner'), 'over', performance.now(), null)
const cancel = (runId: string) => cancelRun(engine.context, { caller: engine.caller('member'), runId })

interface Pair {
  readonly runId: string
  readonly first: StepOp
  readonly second: StepOp
}

/** A run whose first call is allowed. Returns this call and the call that follows it. */
async function begun(): Promise<Pair> {
  const runId = await engine.run(twoSteps)
  const tool = toolOf('free')
  const first = opOf(runId, { tool })
  const second = opOf(runId, { tool, key: { ...first.key, stepId: 't' } })
  await go(engine, first)
  return { runId, first, second }
}

/** Saves the outcome of the first call, and decides the second call directly after it. */
async function follow({ first, second }: Pair, how = 'completed', expectedLabels: readonly string[] = []) {
  const { combiner } = engine.context
  const outcome = combiner.join(engine.organizationId, recordOutcomes, outcomeOf(first, 1, how))
  const next = combiner.join(engine.organizationId, decideNext, {
    key: second.key,
    after: first.key,
    expectedLabels,
    step: second,
  })
  return { state: await outcome, verdict: await next }
}

describe('the next call', () => {
  test('is decided in the transaction that saves the outcome before it', async () => {
    const pair = await begun()
    expect(await follow(pair)).toMatchObject({ state: 'completed', verdict: { go: true, attempt: 1 } })
    const [before, next] = [
      await effectOf(engine.context, pair.first),
      await effectOf(engine.context, pair.second),
    ]
    expect(next).toMatchObject({ state: 'intent', intent_at: before?.finished_at })
    expect(await stepOf(engine.context, pair.runId, 't')).toMatchObject({ status: 'running', attempts: 1 })
  })

  test('that a rule holds waits for its approval', async () => {
    await engine.rules(holdRule())
    const runId = await engine.run(twoSteps)
    const tool = toolOf('free')
    const second = opOf(runId, { tool, key: { runId, stepId: 't', itemIndex: -1 } })
    const first = opOf(runId, { tool: { ...tool, name: 'file_read' } })
    await go(engine, first)
    expect((await follow({ runId, first, second })).verdict).toMatchObject({ state: 'held' })
    expect(await approvalsOf(engine.context, runId)).toHaveLength(1)
  })

  test.each<[string, number, (pair: Pair) => Promise<unknown>]>([
    ['the output has another label', 0, (pair) => follow(pair, 'completed', ['pii'])],
    ['the call before it failed', 0, (pair) => follow(pair, 'failed')],
    ['the call before it is tried again', 0, (pair) => follow(pair, 'retry')],
    ['the run is cancelled', 0, async (pair) => (await cancel(pair.runId), follow(pair))],
    ['it was decided already', 1, async (pair) => (await go(engine, pair.second), follow(pair))],
  ])('waits for its own activity if %s', async (_what, decided, asked) => {
    const pair = await begun()
    expect(await asked(pair)).toMatchObject({ verdict: null })
    expect((await effectOf(engine.context, pair.second))?.attempt ?? 0).toBe(decided)
  })

  test('waits for its own activity if the organization is frozen', async () => {
    const pair = await begun()
    await stop()
    try {
      expect(await follow(pair)).toEqual({ state: 'completed', verdict: null })
      expect(await effectOf(engine.context, pair.second)).toBeUndefined()
    } finally {
      await goOn()
    }
  })
})

describe('a decision made ahead', () => {
  const holds = async ({ second }: Pair, attempt = 1) =>
    stillHolds(engine.context, second.key, attempt, await basisOf(engine.context, second))

  test('holds until something changes', async () => {
    const pair = await begun()
    await follow(pair)
    expect(await holds(pair)).toBe(true)
    expect(await holds(pair, 2)).toBe(false)
  })

  test.each<[string, (pair: Pair) => Promise<unknown>, () => Promise<unknown>]>([
    ['a freeze', stop, goOn],
    ['a rule', () => engine.rules(denyRule()), async () => {}],
    ['a cancellation', ({ runId }) => cancel(runId), async () => {}],
    ['another attempt', ({ second }) => go(engine, second), async () => {}],
  ])('ends with %s', async (_what, change, back) => {
    const pair = await begun()
    await follow(pair)
    const basis = await basisOf(engine.context, pair.second)
    await change(pair)
    try {
      expect(await stillHolds(engine.context, pair.second.key, 1, basis)).toBe(false)
    } finally {
      await back()
    }
  })
})

describe('the end of the run', () => {
  const finish = async (runId: string) =>
    finishWithLastCall(engine.context, await readRunSnapshot(engine.context, runId))

  /** A run of one step. The end of the run is saved together with the outcome of the step. */
  async function ended(how: string, cancelled = false) {
    const op = opOf(await engine.run(), { tool: toolOf('free') })
    await go(engine, op)
    if (cancelled) await cancel(op.key.runId)
    await readRunSnapshot(engine.context, op.key.runId)
    await Promise.all([engine.record(outcomeOf(op, 1, how)), finish(op.key.runId)])
    return { op, run: await runOf(engine.context, op.key.runId) }
  }

  test('shares the transaction of the last outcome, and its workflow finds it ended', async () => {
    const { op, run } = await ended('completed')
    expect(run).toMatchObject({ status: 'completed', status_reason: 'every step has ended', slot: null })
    expect(run.finished_at).toEqual((await effectOf(engine.context, op))?.finished_at)
    expect(await finishRun(engine.context, { runId: run.id, status: 'completed' })).toBe('completed')
    expect(await runOf(engine.context, run.id)).toEqual(run)
  })

  test.each(['failed', 'retry', 'unknown_outcome'])('is left to the workflow after %s', async (how) => {
    expect((await ended(how)).run.finished_at).toBeNull()
  })

  test('is left to the workflow if the run was cancelled', async () => {
    expect((await ended('completed', true)).run.finished_at).toBeNull()
  })

  test('is left to the workflow while another step has not ended', async () => {
    const { runId, first } = await begun()
    await Promise.all([engine.record(outcomeOf(first, 1, 'completed')), finish(runId)])
    expect((await runOf(engine.context, runId)).finished_at).toBeNull()
  })
})
