import { describe, expect, test } from '@jest/globals'
import { finishWithLastCall } from '../../../src/governance/runs/end/finish.ts'
import { decideAgain, decideNext } from '../../../src/calls/runs/effect.ts'
import {
  markSent,
  noteBody,
  recordWithWrite,
  recordOutcomes,
  stillHolds,
} from '../../../src/calls/runs/outcome.ts'
import { readCalls } from '../../../src/governance/runs/read/calls.ts'
import {
  opOf,
  outcomeOf,
  useEngine,
  toolOf,
  type Engine,
  type ResolvedCall,
  denyRule,
  holdRule,
} from '../../governance/runs/engine-fixture.ts'
import type { Repeat } from '../../../src/tools/kit/tool.ts'
import type { Basis } from '../../../src/calls/runs/call.ts'
import { waitsForLock } from '../../governance/support.ts'
import { readRunSnapshot } from '../../../src/governance/runs/values/run-snapshot.ts'

let engine: Engine
useEngine((started) => (engine = started))

const fresh = async (over: Parameters<typeof opOf>[1] = {}): Promise<ResolvedCall> =>
  opOf(await engine.run(), over)
const stateOf = async (op: ResolvedCall) => (await engine.effectOf(op))?.state
/** A call in progress, of a tool that may be repeated. */
const begin = async (repeat: Repeat): Promise<ResolvedCall> => {
  const op = await fresh({ tool: toolOf(repeat) })
  await engine.go(op)
  return op
}
/** Records the outcome of a tool that writes to our database. The outcome and the write are saved together. */
const write = async (op: ResolvedCall, attempt: number, commit: () => Promise<null>) =>
  recordWithWrite(
    engine.context,
    engine.organizationId,
    outcomeOf(op, attempt, 'completed'),
    await engine.basisOf(op),
    commit,
  )

describe('a superseded attempt', () => {
  test('cannot pass its point of no return, the newest can once', async () => {
    const op = await begin('unsafe')
    expect(await engine.go(op)).toBe(2)
    expect(await engine.mark(op, 1)).toBe('superseded')
    expect(await stateOf(op)).toBe('intent')
    expect(await engine.mark(op, 2)).toBe('yes')
    expect(await engine.mark(op, 2)).toBe('superseded')
  })

  test.each(['completed', 'failed', 'retry', 'cancelled', 'unknown_outcome'])(
    'cannot record %s over a newer attempt',
    async (result) => {
      const op = await begin('free')
      await engine.go(op)
      const before = await engine.effectOf(op)
      expect(await engine.record(outcomeOf(op, 1, result))).toBe('intent')
      expect(await engine.effectOf(op)).toEqual(before)
    },
  )

  test('of a transactional tool writes nothing; the newest attempt writes once with its outcome', async () => {
    const op = await begin('transactional')
    await engine.go(op)
    const writes: number[] = []
    const attempt = (n: number) => write(op, n, async () => (writes.push(n), null))
    expect(await attempt(1)).toBe('intent')
    expect(await attempt(2)).toBe('completed')
    expect(await attempt(2)).toBe('completed')
    expect(writes).toEqual([2])
  })

  test('a failed write undoes its outcome', async () => {
    const op = await begin('transactional')
    const failing = write(op, 1, () => Promise.reject(new Error('no')))
    await expect(failing).rejects.toThrow('no')
    expect(await stateOf(op)).toBe('intent')
  })
})

describe('a late outcome', () => {
  const lost = async (): Promise<ResolvedCall> => {
    const op = await begin('unsafe')
    await engine.mark(op, 1)
    await engine.decide(op)
    expect(await stateOf(op)).toBe('unknown_outcome')
    return op
  }

  test.each([
    ['completed', 'completed', 1, 0],
    ['failed', 'failed', 0, 1],
    ['retry', 'unknown_outcome', 0, 0],
    ['cancelled', 'unknown_outcome', 0, 0],
  ] as const)('%s leaves an unresolved unknown outcome %s', async (result, state, executed, failed) => {
    const op = await lost()
    expect(await engine.record(outcomeOf(op, 1, result))).toBe(state)
    const run = await engine.runOf(op.key.runId)
    expect(run).toMatchObject({ nodes_executed: executed, nodes_failed: failed })
    expect(run.status).toBe(state === 'unknown_outcome' ? 'paused' : 'running')
    const wakes = state === 'unknown_outcome' ? [] : [{ key: 's#-1' }]
    expect(await engine.wakesOf(op.key.runId)).toEqual(wakes)
  })

  test('changes nothing once a person has chosen to make the call again', async () => {
    const op = await lost()
    await engine.resolve(op.key.runId, 'retry')
    expect(await engine.record(outcomeOf(op, 1, 'completed'))).toBe('unknown_outcome')
    expect(await engine.go(op)).toBe(2)
    expect(await engine.record(outcomeOf(op, 1, 'completed'))).toBe('intent')
    expect(await engine.record(outcomeOf(op, 2, 'completed'))).toBe('completed')
  })

  test('is stored for a run that has ended meanwhile; the run does not change', async () => {
    const op = await begin('unsafe')
    await engine.mark(op, 1)
    await engine.finish(op.key.runId, 'cancelled')
    expect(await engine.stepOf(op.key.runId)).toMatchObject({ status: 'unknown_outcome' })
    expect(await engine.record(outcomeOf(op, 1, 'completed'))).toBe('completed')
    expect(await engine.runOf(op.key.runId)).toMatchObject({ status: 'cancelled', nodes_executed: 1 })
    expect(await engine.stepOf(op.key.runId)).toMatchObject({ status: 'completed' })
  })
})

describe('the point of no return and concurrent changes', () => {
  const sent = { state: 'sent', sent_at: new Date() }
  const unknown = { go: false, state: 'unknown_outcome' }
  const mark = (op: ResolvedCall, basis: Basis) => markSent(engine.context, op.key, 1, basis)
  const decide = (op: ResolvedCall) => engine.decide(op)
  const end = (op: ResolvedCall) => engine.finish(op.key.runId, 'cancelled')

  test('a new attempt: only one of both succeeds, in any order', async () => {
    const other = engine.another()
    for (let round = 0; round < 60; round += 1) {
      const op = await begin('unsafe')
      const basis = await engine.basisOf(op)
      const marking = () => markSent(other, op.key, 1, basis)
      const first = round % 2 === 0 ? marking() : null
      const deciding = engine.decide(op)
      const [marked, verdict] = await Promise.all([first ?? marking(), deciding])
      expect(marked).toBe(verdict.go ? 'superseded' : 'yes')
      expect(await stateOf(op)).toBe(verdict.go ? 'intent' : 'unknown_outcome')
    }
  })

  test.each<[string, object, (op: ResolvedCall, basis: Basis) => Promise<unknown>, unknown]>([
    ['a new attempt holds the row: a mark waits, and is refused', { attempt: 2 }, mark, 'superseded'],
    ['a mark holds the row: a new attempt waits, and finds an unknown outcome', sent, decide, unknown],
    ['a mark holds the row: the end of the run waits, and keeps its state', sent, end, 'cancelled'],
  ])('%s', async (_, change, act, expected) => {
    const op = await begin('unsafe')
    let waiting: Promise<unknown> | undefined
    const basis = await engine.basisOf(op)
    const { db } = engine.another()
    await db.transaction().execute(async (trx) => {
      await trx.updateTable('effects').set(change).where('run_id', '=', op.key.runId).execute()
      waiting = act(op, basis)
      await waitsForLock(engine.adminUrl)
    })
    expect(await waiting).toEqual(expected)
    expect(await stateOf(op)).toBe('attempt' in change ? 'intent' : 'unknown_outcome')
  })

  test('nothing is sent for a run that is being cancelled or has ended', async () => {
    const cancelled = await begin('unsafe')
    await engine.cancel(cancelled.key.runId)
    expect(await engine.mark(cancelled, 1)).toBe('superseded')
    const ended = await begin('unsafe')
    await engine.finish(ended.key.runId, 'failed')
    expect(await engine.mark(ended, 1)).toBe('superseded')
    expect(await stateOf(ended)).toBe('cancelled')
  })
})

describe('the rows of a run', () => {
  test('a failing tool is retried, counted, and its attempts are shown', async () => {
    const op = await begin('free')
    expect(await engine.record(outcomeOf(op, 1, 'retry'))).toBe('retry')
    expect(await engine.decide(op)).toMatchObject({ go: true, attempt: 2, failures: 1 })
    await engine.record(outcomeOf(op, 2, 'failed'))
    const run = await engine.readRun(op.key.runId)
    expect(run).toMatchObject({ nodes_executed: 0, nodes_failed: 1 })
    expect(run?.steps[0]).toMatchObject({ status: 'failed', attempts: 2, error: { code: 'e', message: 'm' } })
    expect(await engine.eventsOf(op.key.runId)).toEqual([
      'run.queued',
      'run.started',
      'step.decided',
      'step.started',
      'step.decided',
      'step.failed',
    ])
  })

  test('the number of attempts says how often the body began, not how often the call was decided', async () => {
    const shown = async (op: ResolvedCall) => {
      const run = await engine.readRun(op.key.runId)
      const { data } = await readCalls(engine.context, viewer(), op.key, { limit: 1, cursor: null })
      return [run?.steps[0]?.attempts, data[0]?.attempts]
    }
    const viewer = () => ({ organizationId: engine.organizationId, userId: 'usr_x', role: 'admin' as const })
    // The answer to the first decision was lost, so the body did not begin. The second one begins it.
    const lost = await begin('free')
    await engine.go(lost)
    expect(await shown(lost)).toEqual([1, 1])
    // The worker reports the outcome twice, because the first answer was lost too.
    for (const _ of [1, 2]) expect(await engine.record(outcomeOf(lost, 2, 'completed'))).toBe('completed')
    expect(await shown(lost)).toEqual([1, 1])

    // A long body is counted once, before its worker dies. The rules change during the next one, which goes on.
    const died = await begin('transactional')
    for (const _ of [1, 2]) await noteBody(engine.context, died.key, 1)
    await engine.go(died)
    expect(await shown(died)).toEqual([2, 2])
    const again = { key: died.key, call: died, attempt: 2 }
    await engine.context.combiner.join(engine.organizationId, decideAgain, again)
    await noteBody(engine.context, died.key, 3)
    await engine.record(outcomeOf(died, 3, 'completed'))
    expect(await shown(died)).toEqual([2, 2])

    // The second attempt only looks for the effect of the first one.
    const looked = await begin('findable')
    expect(await engine.mark(looked, 1)).toBe('yes')
    await engine.go(looked)
    expect(await shown(looked)).toEqual([1, 1])
    await engine.record({ ...outcomeOf(looked, 2, 'completed'), bodiless: true })
    expect(await shown(looked)).toEqual([1, 1])

    // A rule denies the call after a decision that no body followed.
    const denied = await begin('free')
    await engine.rules({ name: 'no mail', verdict: 'deny', tools: ['mail_send'] })
    expect(await engine.decide(denied)).toMatchObject({ state: 'denied' })
    expect(await shown(denied)).toEqual([0, 0])
  })

  test('a call that kills every worker is given up after a hundred attempts', async () => {
    const op = await begin('free')
    await engine.context.db
      .updateTable('effects')
      .set({ attempt: 100 })
      .where('run_id', '=', op.key.runId)
      .execute()
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'failed' })
  })

  test('changed parameters are refused and change nothing', async () => {
    const op = await begin('unsafe')
    const before = await engine.effectOf(op)
    await expect(engine.decide({ ...op, paramsHash: 'other' })).rejects.toThrow('differ from the stored ones')
    expect(await engine.effectOf(op)).toEqual(before)
  })

  test('a call of an ended or unknown run is answered and leaves nothing', async () => {
    const op = await fresh()
    await engine.finish(op.key.runId, 'failed')
    const events = await engine.eventsOf(op.key.runId)
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'cancelled' })
    expect(await engine.effectOf(op)).toBeUndefined()
    expect(await engine.eventsOf(op.key.runId)).toEqual(events)
    expect(await engine.decide(opOf('run_none'))).toMatchObject({ go: false, state: 'cancelled' })
  })
})

/*
 * The decision of the next call, or the end of the run, is saved in the same transaction as the outcome of the call
 * before.
 */

const step = { tool: 'memory_get', params: { key: 'k' } }
const twoSteps = { steps: [{ id: 's', ...step }, { id: 't', ...step, depends_on: ['s'] }] } // prettier-ignore
interface Pair {
  readonly runId: string
  readonly first: ResolvedCall
  readonly second: ResolvedCall
}

/** A run whose first call is allowed. Returns this call and the call that follows it. */
async function begun(): Promise<Pair> {
  const runId = await engine.run(twoSteps)
  const tool = toolOf('free')
  const first = opOf(runId, { tool })
  const second = opOf(runId, { tool, key: { ...first.key, stepId: 't' } })
  await engine.go(first)
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
    call: second,
  })
  return { state: await outcome, verdict: await next }
}

describe('the next call', () => {
  test('is decided in the transaction that saves the outcome before it', async () => {
    const pair = await begun()
    expect(await follow(pair)).toMatchObject({ state: 'completed', verdict: { go: true, attempt: 1 } })
    const [before, next] = [await engine.effectOf(pair.first), await engine.effectOf(pair.second)]
    expect(next).toMatchObject({ state: 'intent', intent_at: before?.finished_at })
    expect(await engine.stepOf(pair.runId, 't')).toMatchObject({ status: 'running', attempts: 1 })
  })

  test('that a rule holds waits for its approval', async () => {
    await engine.rules(holdRule())
    const runId = await engine.run(twoSteps)
    const tool = toolOf('free')
    const second = opOf(runId, { tool, key: { runId, stepId: 't', itemIndex: -1 } })
    const first = opOf(runId, { tool: { ...tool, name: 'file_read' } })
    await engine.go(first)
    expect((await follow({ runId, first, second })).verdict).toMatchObject({ state: 'held' })
    expect(await engine.approvalsOf(runId)).toHaveLength(1)
  })

  test.each<[string, number, (pair: Pair) => Promise<unknown>]>([
    ['the output has another label', 0, (pair) => follow(pair, 'completed', ['pii'])],
    ['the call before it failed', 0, (pair) => follow(pair, 'failed')],
    ['the call before it is tried again', 0, (pair) => follow(pair, 'retry')],
    ['the run is cancelled', 0, async (pair) => (await engine.cancel(pair.runId), follow(pair))],
    ['the organization is frozen', 0, (pair) => engine.frozen(() => follow(pair))],
    ['it was decided already', 1, async (pair) => (await engine.go(pair.second), follow(pair))],
  ])('waits for its own activity if %s', async (_what, decided, asked) => {
    const pair = await begun()
    expect(await asked(pair)).toMatchObject({ verdict: null })
    expect((await engine.effectOf(pair.second))?.attempt ?? 0).toBe(decided)
  })
})

describe('a decision made ahead', () => {
  const holds = async ({ second }: Pair, attempt = 1) =>
    stillHolds(engine.context, second.key, attempt, await engine.basisOf(second))

  test('holds until something changes', async () => {
    const pair = await begun()
    await follow(pair)
    expect(await holds(pair)).toBe(true)
    expect(await holds(pair, 2)).toBe(false)
  })

  test.each<[string, (pair: Pair) => Promise<unknown>]>([
    ['a freeze', () => engine.frozen(async () => {})],
    ['a rule', () => engine.rules(denyRule())],
    ['a cancellation', ({ runId }) => engine.cancel(runId)],
    ['another attempt', ({ second }) => engine.go(second)],
  ])('ends with %s', async (_what, change) => {
    const pair = await begun()
    await follow(pair)
    const basis = await engine.basisOf(pair.second)
    await change(pair)
    expect(await stillHolds(engine.context, pair.second.key, 1, basis)).toBe(false)
  })
})

describe('the end of the run', () => {
  const finish = async (runId: string) =>
    finishWithLastCall(engine.context, await readRunSnapshot(engine.context, runId))

  /** A run of one step. The end of the run is saved together with the outcome of the step. */
  async function ended(how: string, cancelled = false) {
    const op = opOf(await engine.run(), { tool: toolOf('free') })
    await engine.go(op)
    if (cancelled) await engine.cancel(op.key.runId)
    await readRunSnapshot(engine.context, op.key.runId)
    await Promise.all([engine.record(outcomeOf(op, 1, how)), finish(op.key.runId)])
    return { op, run: await engine.runOf(op.key.runId) }
  }

  test('shares the transaction of the last outcome, and its workflow finds it ended', async () => {
    const { op, run } = await ended('completed')
    expect(run).toMatchObject({ status: 'completed', status_reason: 'every step has ended', slot: null })
    expect(run.finished_at).toEqual((await engine.effectOf(op))?.finished_at)
    expect(await engine.finish(run.id, 'completed')).toBe('completed')
    expect(await engine.runOf(run.id)).toEqual(run)
  })

  test.each([
    ['the step failed', 'failed', false],
    ['the step is tried again', 'retry', false],
    ['the outcome is unknown', 'unknown_outcome', false],
    ['the run was cancelled', 'completed', true],
  ])('is left to the workflow if %s', async (_, how, cancelled) => {
    expect((await ended(how, cancelled)).run.finished_at).toBeNull()
  })

  test('is left to the workflow while another step has not ended', async () => {
    const { runId, first } = await begun()
    await Promise.all([engine.record(outcomeOf(first, 1, 'completed')), finish(runId)])
    expect((await engine.runOf(runId)).finished_at).toBeNull()
  })
})
