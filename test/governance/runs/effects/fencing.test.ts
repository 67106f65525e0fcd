import { describe, expect, test } from '@jest/globals'
import { finishRun } from '../../../../src/governance/runs/end/finish.ts'
import { cancelRun } from '../../../../src/governance/runs/end/cancel.ts'
import { decideAgain } from '../../../../src/governance/runs/effects/decide-again.ts'
import {
  markSent,
  noteBody,
  recordWithWrite,
  type MayAct,
} from '../../../../src/governance/runs/effects/outcome.ts'
import { readCalls } from '../../../../src/governance/runs/read/calls.ts'
import { resolveStep } from '../../../../src/governance/runs/effects/resolve.ts'
import { readRun } from '../whole-run.ts'
import {
  basisOf,
  effectOf,
  eventsOf,
  go,
  opOf,
  outcomeOf,
  runOf,
  useEngine,
  stepOf,
  toolOf,
  type Engine,
  type StepOp,
} from '../engine-fixture.ts'
import { waitsForLock } from '../../support.ts'

let engine: Engine
useEngine((started) => (engine = started))

const fresh = async (over: Parameters<typeof opOf>[1] = {}): Promise<StepOp> => opOf(await engine.run(), over)
const stateOf = async (op: StepOp) => (await effectOf(engine.context, op))?.state
const mark = async (op: StepOp, attempt: number, context = engine.context): Promise<MayAct> =>
  markSent(context, op.key, attempt, await basisOf(engine.context, op))

describe('a superseded attempt', () => {
  test('cannot pass its point of no return, the newest can once', async () => {
    const op = await fresh()
    await go(engine, op)
    expect(await go(engine, op)).toBe(2)
    expect(await mark(op, 1)).toBe('superseded')
    expect(await stateOf(op)).toBe('intent')
    expect(await mark(op, 2)).toBe('yes')
    expect(await mark(op, 2)).toBe('superseded')
  })

  test.each(['completed', 'failed', 'retry', 'cancelled', 'unknown_outcome'])(
    'cannot record %s over a newer attempt',
    async (result) => {
      const op = await fresh({ tool: toolOf('free') })
      await go(engine, op)
      await go(engine, op)
      const before = await effectOf(engine.context, op)
      expect(await engine.record(outcomeOf(op, 1, result))).toBe('intent')
      expect(await effectOf(engine.context, op)).toEqual(before)
    },
  )

  test('of a transactional tool writes nothing; the newest attempt writes once with its outcome', async () => {
    const op = await fresh({ tool: toolOf('transactional') })
    await go(engine, op)
    await go(engine, op)
    const writes: number[] = []
    const basis = await basisOf(engine.context, op)
    const write = (attempt: number) =>
      recordWithWrite(
        engine.context,
        engine.organizationId,
        outcomeOf(op, attempt, 'completed'),
        basis,
        async () => {
          writes.push(attempt)
          return null
        },
      )
    expect(await write(1)).toBe('intent')
    expect(await write(2)).toBe('completed')
    expect(await write(2)).toBe('completed')
    expect(writes).toEqual([2])
  })

  test('a failed write undoes its outcome', async () => {
    const op = await fresh({ tool: toolOf('transactional') })
    await go(engine, op)
    const failing = recordWithWrite(
      engine.context,
      engine.organizationId,
      outcomeOf(op, 1, 'completed'),
      await basisOf(engine.context, op),
      () => Promise.reject(new Error('no')),
    )
    await expect(failing).rejects.toThrow('no')
    expect(await stateOf(op)).toBe('intent')
  })
})

describe('a late outcome', () => {
  const lost = async (): Promise<StepOp> => {
    const op = await fresh()
    await go(engine, op)
    await mark(op, 1)
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
    const run = await runOf(engine.context, op.key.runId)
    expect(run).toMatchObject({ nodes_executed: executed, nodes_failed: failed })
    expect(run.status).toBe(state === 'unknown_outcome' ? 'paused' : 'running')
    const wakes = await engine.context.db
      .selectFrom('outbox')
      .select('payload')
      .where('run_id', '=', op.key.runId)
      .where('kind', '=', 'run.wake')
      .execute()
    expect(wakes).toEqual(state === 'unknown_outcome' ? [] : [{ payload: { key: 's#-1' } }])
  })

  test('changes nothing once a person has chosen to make the call again', async () => {
    const op = await lost()
    await resolveStep(engine.context, {
      caller: engine.caller('admin'),
      runId: op.key.runId,
      stepId: 's',
      items: null,
      outcome: 'retry',
    })
    expect(await engine.record(outcomeOf(op, 1, 'completed'))).toBe('unknown_outcome')
    expect(await go(engine, op)).toBe(2)
    expect(await engine.record(outcomeOf(op, 1, 'completed'))).toBe('intent')
    expect(await engine.record(outcomeOf(op, 2, 'completed'))).toBe('completed')
  })

  test('is stored for a run that has ended meanwhile; the run does not change', async () => {
    const op = await fresh()
    await go(engine, op)
    await mark(op, 1)
    await finishRun(engine.context, { runId: op.key.runId, status: 'cancelled' })
    expect(await stepOf(engine.context, op.key.runId)).toMatchObject({ status: 'unknown_outcome' })
    expect(await engine.record(outcomeOf(op, 1, 'completed'))).toBe('completed')
    expect(await runOf(engine.context, op.key.runId)).toMatchObject({
      status: 'cancelled',
      nodes_executed: 1,
    })
    expect(await stepOf(engine.context, op.key.runId)).toMatchObject({ status: 'completed' })
  })
})

describe('the point of no return and concurrent changes', () => {
  test('a new attempt: only one of both succeeds, in any order', async () => {
    const other = engine.another()
    for (let round = 0; round < 60; round += 1) {
      const op = await fresh()
      await go(engine, op)
      const basis = await basisOf(engine.context, op)
      const first = markSent(other, op.key, 1, basis)
      const [marked, verdict] = await Promise.all(
        round % 2 === 0
          ? [first, engine.decide(op)]
          : [first.then((each) => each), Promise.resolve().then(() => engine.decide(op))],
      )
      expect(marked).toBe(verdict.go ? 'superseded' : 'yes')
      expect(await stateOf(op)).toBe(verdict.go ? 'intent' : 'unknown_outcome')
    }
  })

  test('a new attempt that holds the row makes the mark wait, and refuses it', async () => {
    const op = await fresh()
    await go(engine, op)
    const other = engine.another()
    const basis = await basisOf(engine.context, op)
    let marked: Promise<MayAct> | undefined
    await engine.context.db.transaction().execute(async (trx) => {
      await trx.updateTable('effects').set({ attempt: 2 }).where('run_id', '=', op.key.runId).execute()
      marked = markSent(other, op.key, 1, basis)
      await waitsForLock(engine.adminUrl)
    })
    expect(await marked).toBe('superseded')
  })

  test('a mark that holds the row makes a new attempt wait, which then finds an unknown outcome', async () => {
    const op = await fresh()
    await go(engine, op)
    const other = engine.another()
    let decided: Promise<unknown> | undefined
    await other.db.transaction().execute(async (trx) => {
      await trx.updateTable('effects').set({ state: 'sent' }).where('run_id', '=', op.key.runId).execute()
      decided = engine.decide(op)
      await waitsForLock(engine.adminUrl)
    })
    expect(await decided).toEqual({ go: false, state: 'unknown_outcome' })
  })

  test('the end of the run waits for a mark and keeps its state', async () => {
    const op = await fresh()
    await go(engine, op)
    const other = engine.another()
    let finished: Promise<unknown> | undefined
    await other.db.transaction().execute(async (trx) => {
      await trx
        .updateTable('effects')
        .set({ state: 'sent', sent_at: new Date() })
        .where('run_id', '=', op.key.runId)
        .execute()
      finished = finishRun(engine.context, { runId: op.key.runId, status: 'cancelled' })
      await waitsForLock(engine.adminUrl)
    })
    await finished
    expect(await stateOf(op)).toBe('unknown_outcome')
  })

  test('nothing is sent for a run that is being cancelled or has ended', async () => {
    const cancelled = await fresh()
    await go(engine, cancelled)
    await cancelRun(engine.context, { caller: engine.caller('member'), runId: cancelled.key.runId })
    expect(await mark(cancelled, 1)).toBe('superseded')
    const ended = await fresh()
    await go(engine, ended)
    await finishRun(engine.context, { runId: ended.key.runId, status: 'failed' })
    expect(await mark(ended, 1)).toBe('superseded')
    expect(await stateOf(ended)).toBe('cancelled')
  })
})

describe('the rows of a run', () => {
  test('a failing tool is retried, counted, and its attempts are shown', async () => {
    const op = await fresh({ tool: toolOf('free') })
    await go(engine, op)
    expect(await engine.record(outcomeOf(op, 1, 'retry'))).toBe('retry')
    expect(await engine.decide(op)).toMatchObject({ go: true, attempt: 2, failures: 1 })
    await engine.record(outcomeOf(op, 2, 'failed'))
    const run = await readRun(engine.context, engine.organizationId, op.key.runId)
    expect(run).toMatchObject({ nodes_executed: 0, nodes_failed: 1 })
    expect(run?.steps[0]).toMatchObject({ status: 'failed', attempts: 2, error: { code: 'e', message: 'm' } })
    expect(await eventsOf(engine.context, op.key.runId)).toEqual([
      'run.queued',
      'run.started',
      'step.decided',
      'step.started',
      'step.decided',
      'step.failed',
    ])
  })

  test('the number of attempts says how often the body began, not how often the call was decided', async () => {
    const shown = async (op: StepOp) => {
      const run = await readRun(engine.context, engine.organizationId, op.key.runId)
      const { data } = await readCalls(engine.context, viewer(), op.key, { limit: 1, cursor: null })
      return [run?.steps[0]?.attempts, data[0]?.attempts]
    }
    const viewer = () => ({ organizationId: engine.organizationId, userId: 'usr_x', role: 'admin' as const })
    // The answer to the first decision was lost, so the body did not begin. The second one begins it.
    const lost = await fresh({ tool: toolOf('free') })
    await go(engine, lost)
    await go(engine, lost)
    expect(await shown(lost)).toEqual([1, 1])
    // The worker reports the outcome twice, because the first answer was lost too.
    for (const _ of [1, 2]) expect(await engine.record(outcomeOf(lost, 2, 'completed'))).toBe('completed')
    expect(await shown(lost)).toEqual([1, 1])

    // A long body is counted once, before its worker dies. The rules change during the next one, which goes on.
    const died = await fresh({ tool: toolOf('transactional') })
    await go(engine, died)
    for (const _ of [1, 2]) await noteBody(engine.context, died.key, 1)
    await go(engine, died)
    expect(await shown(died)).toEqual([2, 2])
    const again = { key: died.key, step: died, attempt: 2 }
    await engine.context.combiner.join(engine.organizationId, decideAgain, again)
    await noteBody(engine.context, died.key, 3)
    await engine.record(outcomeOf(died, 3, 'completed'))
    expect(await shown(died)).toEqual([2, 2])

    // The second attempt only looks for the effect of the first one.
    const looked = await fresh({ tool: toolOf('findable') })
    await go(engine, looked)
    expect(await mark(looked, 1)).toBe('yes')
    await go(engine, looked)
    expect(await shown(looked)).toEqual([1, 1])
    await engine.record({ ...outcomeOf(looked, 2, 'completed'), bodiless: true })
    expect(await shown(looked)).toEqual([1, 1])

    // A rule denies the call after a decision that no body followed.
    const denied = await fresh({ tool: toolOf('free') })
    await go(engine, denied)
    await engine.rules({ name: 'no mail', verdict: 'deny', tools: ['mail_send'] })
    expect(await engine.decide(denied)).toMatchObject({ state: 'denied' })
    expect(await shown(denied)).toEqual([0, 0])
  })

  test('a call that kills every worker is given up after a hundred attempts', async () => {
    const op = await fresh({ tool: toolOf('free') })
    await go(engine, op)
    await engine.context.db
      .updateTable('effects')
      .set({ attempt: 100 })
      .where('run_id', '=', op.key.runId)
      .execute()
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'failed' })
  })

  test('changed parameters are refused and change nothing', async () => {
    const op = await fresh()
    await go(engine, op)
    const before = await effectOf(engine.context, op)
    await expect(engine.decide({ ...op, paramsHash: 'other' })).rejects.toThrow('differ from the stored ones')
    expect(await effectOf(engine.context, op)).toEqual(before)
  })

  test('a call of an ended or unknown run is answered and leaves nothing', async () => {
    const op = await fresh()
    await finishRun(engine.context, { runId: op.key.runId, status: 'failed' })
    const events = await eventsOf(engine.context, op.key.runId)
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'cancelled' })
    expect(await effectOf(engine.context, op)).toBeUndefined()
    expect(await eventsOf(engine.context, op.key.runId)).toEqual(events)
    expect(await engine.decide(opOf('run_none'))).toMatchObject({ go: false, state: 'cancelled' })
  })
})
