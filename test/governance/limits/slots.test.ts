import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { Context } from '../../../src/governance/context.ts'
import { changeQuota } from '../../../src/governance/limits/quota.ts'
import { reconcile } from '../../../src/governance/delivery/reconciler.ts'
import { cancelRun } from '../../../src/governance/runs/end/cancel.ts'
import { enterRun } from '../../../src/governance/runs/start/enter.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { auditOf } from '../support.ts'
import {
  approvalsOf,
  denyRule,
  effectOf,
  eventsOf,
  go,
  hold,
  holdRule,
  makeLate,
  opOf,
  outcomeOf,
  runOf,
  startEngine,
  type Engine,
} from '../runs/engine-fixture.ts'

let engine: Engine
beforeAll(async () => {
  engine = await startEngine()
})
afterAll(() => engine?.close())
beforeEach(async () => {
  await engine.settings({ approval_required_from: null })
  await engine.rules()
  for (const { id } of await openRuns()) await end(id)
  await engine.context.pool.query('delete from outbox')
  await limit({ concurrent_executions: 1, queued_executions: 10 })
})

const openRuns = () =>
  engine.context.db.selectFrom('runs').select('id').where('finished_at', 'is', null).execute()
const end = (runId: string) => finishRun(engine.context, { runId, status: 'failed' })
const limit = (limits: Record<string, number>) => changeQuota(engine.context, engine.caller('owner'), limits)
const slotOf = async (runId: string) => (await runOf(engine.context, runId)).slot
const told = async (context: Context, runId: string) =>
  (
    await context.db.selectFrom('outbox').select('kind').where('run_id', '=', runId).orderBy('id').execute()
  ).map(({ kind }) => kind)

describe('a run beyond the slots', () => {
  test('waits without a workflow and says why; an ending run starts it, in order of acceptance', async () => {
    const [first, second, third] = [await engine.run(), await engine.run(), await engine.run()]
    expect(await told(engine.context, first)).toEqual(['run.start'])
    expect(await told(engine.context, second)).toEqual([])
    expect(await runOf(engine.context, second)).toMatchObject({
      status: 'queued',
      slot: 'queued',
      status_reason: 'the run waits for one of 1 concurrent runs to end or to be held',
    })
    await end(first)
    expect(await told(engine.context, second)).toEqual(['run.start'])
    expect(await runOf(engine.context, second)).toMatchObject({
      slot: 'taken',
      status_reason: 'the run waits for a worker',
    })
    expect(await slotOf(third)).toBe('queued')
    await end(second)
    expect(await slotOf(third)).toBe('taken')
    expect(await eventsOf(engine.context, third)).toEqual(['run.queued'])
  })

  test('is refused once the queue is full', async () => {
    await limit({ queued_executions: 1 })
    await engine.run()
    await engine.run()
    await expect(engine.run()).rejects.toMatchObject({
      code: 'quota_exceeded',
      details: [{ path: 'queued_executions', message: 'the limit is 1' }],
    })
    expect(await openRuns()).toHaveLength(2)
    // The plan was analysed, so the refusal says how risky the run would have been.
    expect(await auditOf(engine.context, engine.organizationId, 1)).toMatchObject([
      {
        event_type: 'quota.exceeded',
        metadata: {
          limit: 'queued_executions',
          value: 1,
          risk: 'medium',
          risk_reasons: ['`memory_get` reads company data'],
        },
      },
    ])
  })

  test('is cancelled at once, and frees no slot', async () => {
    const [first, second, third] = [await engine.run(), await engine.run(), await engine.run()]
    await cancelRun(engine.context, { caller: engine.caller('member'), runId: second })
    expect(await runOf(engine.context, second)).toMatchObject({ status: 'cancelled', slot: null })
    expect(await eventsOf(engine.context, second)).toEqual(['run.queued', 'run.cancelled'])
    expect(await told(engine.context, second)).toEqual([])
    expect(await slotOf(third)).toBe('queued')
    await end(first)
    expect(await slotOf(third)).toBe('taken')
  })

  test('is not started by the reconciler', async () => {
    const first = await engine.run()
    const second = await engine.run()
    const started: string[] = []
    const motor = {
      start: async ({ input }: { input: { runId: string } }) => void started.push(input.runId),
      wake: async () => true,
      cancel: async () => true,
      describe: async () => 'missing' as const,
    }
    await reconcile(engine.context, motor, async () => false, -60)
    expect(started).toContain(first)
    expect(started).not.toContain(second)
  })

  test('whose workflow was started by somebody else runs no body before it has a slot', async () => {
    const [first, second] = [await engine.run(), await engine.run()]
    const op = opOf(second)
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'held', approvalId: null })
    expect(await slotOf(second)).toBe('waits')
    await end(first)
    expect(await told(engine.context, second)).toEqual(['run.wake'])
    expect(await go(engine, op)).toBe(1)
  })
})

describe('the limit', () => {
  test('a raised limit holds at once, in order of acceptance', async () => {
    const runs = [await engine.run(), await engine.run(), await engine.run(), await engine.run()]
    await limit({ concurrent_executions: 3 })
    expect(await Promise.all(runs.map(slotOf))).toEqual(['taken', 'taken', 'taken', 'queued'])
  })

  test('a lowered limit holds at once: running runs go on, no other starts', async () => {
    await limit({ concurrent_executions: 3 })
    const runs = [await engine.run(), await engine.run(), await engine.run()]
    await limit({ concurrent_executions: 1 })
    const late = await engine.run()
    await end(runs[0] as string)
    await end(runs[1] as string)
    expect(await slotOf(late)).toBe('queued')
    await end(runs[2] as string)
    expect(await slotOf(late)).toBe('taken')
  })
})

describe('a run that is held', () => {
  /** Holds the only call of a new run, and returns the call's approval. */
  const held = async (): Promise<{ runId: string; approvalId: string }> => {
    await engine.rules(holdRule())
    const runId = await engine.run()
    return { runId, approvalId: await hold(engine, opOf(runId)) }
  }

  test('releases its slot, and takes one again before it goes on', async () => {
    const { runId, approvalId } = await held()
    expect(await slotOf(runId)).toBeNull()
    await engine.vote(approvalId, 'admin')
    expect(await go(engine, opOf(runId))).toBe(1)
    expect(await slotOf(runId)).toBe('taken')
  })

  test('lets the next run start, and waits for a slot after its approval; the approval is not used meanwhile', async () => {
    const { runId, approvalId } = await held()
    const other = await engine.run()
    expect(await slotOf(other)).toBe('taken')
    await engine.vote(approvalId, 'admin')
    await engine.context.pool.query('delete from outbox')
    expect(await engine.decide(opOf(runId))).toMatchObject({ go: false, state: 'held', approvalId })
    expect(await runOf(engine.context, runId)).toMatchObject({
      slot: 'waits',
      status: 'paused',
      status_reason: 'the run waits for one of 1 concurrent runs to end or to be held',
    })
    expect((await approvalsOf(engine.context, runId))[0]).toMatchObject({ used_at: null, status: 'approved' })
    await end(other)
    expect(await told(engine.context, runId)).toEqual(['run.wake'])
    expect(await go(engine, opOf(runId))).toBe(1)
    expect((await approvalsOf(engine.context, runId))[0]?.used_at).not.toBeNull()
  })

  test('goes on before runs that were accepted later', async () => {
    const { runId, approvalId } = await held()
    const other = await engine.run()
    const younger = await engine.run()
    await engine.vote(approvalId, 'admin')
    expect(await engine.decide(opOf(runId))).toMatchObject({ go: false })
    await end(other)
    expect([await slotOf(runId), await slotOf(younger)]).toEqual(['taken', 'queued'])
  })

  test.each([
    ['a deny saved meanwhile', 'denied', () => engine.rules(denyRule())],
    [
      'its approval’s expiry',
      'expired',
      async (approvalId: string) => void (await makeLate(engine.context, approvalId)),
    ],
  ] as const)('while it waits, %s is what it meets', async (_name, state, change) => {
    const { runId, approvalId } = await held()
    const other = await engine.run()
    await engine.vote(approvalId, 'admin')
    expect(await engine.decide(opOf(runId))).toMatchObject({ state: 'held' })
    await change(approvalId)
    await end(other)
    expect(await engine.decide(opOf(runId))).toMatchObject({ go: false, state })
  })

  test('releases its slot again if its call is held again', async () => {
    const { runId, approvalId } = await held()
    const other = await engine.run()
    const younger = await engine.run()
    await engine.vote(approvalId, 'admin')
    await engine.decide(opOf(runId))
    await engine.settings({ approval_threshold: 2 })
    await end(other)
    expect(await slotOf(runId)).toBe('taken')
    expect(await engine.decide(opOf(runId))).toMatchObject({ go: false, state: 'held' })
    await engine.settings({ approval_threshold: 1 })
    expect([await slotOf(runId), await slotOf(younger)]).toEqual([null, 'taken'])
  })

  test('with two held calls, the pending one does not release the approved one’s slot', async () => {
    await engine.rules(holdRule())
    const runId = await engine.run()
    const [a, b] = [opOf(runId, { item: 0 }), opOf(runId, { item: 1 })]
    const approval = await hold(engine, a)
    await hold(engine, b)
    const other = await engine.run()
    const younger = await engine.run()
    await engine.vote(approval, 'admin')
    expect(await engine.decide(a)).toMatchObject({ state: 'held' })
    await end(other)
    expect(await engine.decide(b)).toMatchObject({ state: 'held' })
    expect([await slotOf(runId), await slotOf(younger)]).toEqual(['taken', 'queued'])
    await go(engine, a)
    await engine.record(outcomeOf(a, 1, 'completed'))
    // The other call is still held, and no call of the run is in progress.
    expect([await slotOf(runId), await slotOf(younger)]).toEqual([null, 'taken'])
  })

  test('keeps its slot while another call is in progress or retried', async () => {
    const runId = await engine.run()
    const [a, b] = [opOf(runId, { item: 0 }), opOf(runId, { item: 1 })]
    await go(engine, a)
    await engine.rules(holdRule())
    await hold(engine, b)
    expect(await slotOf(runId)).toBe('taken')
    await engine.record(outcomeOf(a, 1, 'retry'))
    expect(await slotOf(runId)).toBe('taken')
    await engine.rules(denyRule())
    expect(await engine.decide(a)).toMatchObject({ state: 'denied' })
    expect(await slotOf(runId)).toBeNull()
  })

  test('with an unknown outcome releases its slot, and takes one for the retry', async () => {
    const runId = await engine.run()
    const op = opOf(runId)
    const attempt = await go(engine, op)
    await engine.record(outcomeOf(op, attempt, 'unknown_outcome'))
    expect(await slotOf(runId)).toBeNull()
    expect((await effectOf(engine.context, op))?.state).toBe('unknown_outcome')
  })
})

describe('a run that waits for its own approval', () => {
  test('needs no slot before; approved without a free slot it waits, and its approval is checked again then', async () => {
    await engine.settings({ approval_required_from: 'low' })
    const gated = await engine.run()
    await engine.settings({ approval_required_from: null })
    const other = await engine.run()
    expect([await slotOf(gated), await slotOf(other)]).toEqual([null, 'taken'])
    const [approval] = await approvalsOf(engine.context, gated)
    await engine.vote(approval?.id as string, 'admin')
    expect(await enterRun(engine.context, gated)).toMatchObject({ state: 'wait' })
    expect(await enterRun(engine.context, gated)).toMatchObject({ state: 'wait' })
    expect(await runOf(engine.context, gated)).toMatchObject({ slot: 'waits', started_at: null })
    expect((await runOf(engine.context, gated)).status_reason).toContain(
      'approved: the run waits for one of 1',
    )
    await engine.context.pool.query('delete from outbox')
    await end(other)
    expect(await told(engine.context, gated)).toEqual(['run.wake'])
    await engine.settings({ approval_threshold: 2 })
    const younger = await engine.run()
    expect(await slotOf(younger)).toBe('queued')
    expect(await enterRun(engine.context, gated)).toMatchObject({ state: 'wait' })
    expect([await slotOf(gated), await slotOf(younger)]).toEqual([null, 'taken'])
    await engine.settings({ approval_threshold: 1 })
    await end(younger)
    await engine.vote(approval?.id as string, 'approver')
    expect(await enterRun(engine.context, gated)).toEqual({ state: 'go' })
    expect(await slotOf(gated)).toBe('taken')
  })
})
