import { beforeAll, describe, expect, test } from '@jest/globals'
import type { BootstrapName } from '../../../../src/governance/people/bootstrap.ts'
import { createRule } from '../../../../src/governance/rules/rules.ts'
import { labelRuleInput } from '../../../../src/policy/rule.ts'
import { resolveStep, type ResolveRequest } from '../../../../src/governance/runs/effects/resolve.ts'
import { auditOf } from '../../support.ts'
import { go, opOf, outcomeOf, useEngine, type Engine, type StepOp } from '../engine-fixture.ts'
import type { Context } from '../../../../src/governance/context.ts'
import { cancelRun } from '../../../../src/governance/runs/end/cancel.ts'

let engine: Engine
useEngine((started) => (engine = started))

const unknown = async (): Promise<StepOp> => engine.lose(opOf(await engine.run(), { labels: ['pii'] }))
const loseAgain = async (op: StepOp): Promise<void> => {
  await engine.mark(op, await engine.go(op))
  await engine.record(outcomeOf(op, 2, 'unknown_outcome'))
}
const resolve = (
  op: StepOp,
  outcome: ResolveRequest['outcome'],
  by: BootstrapName = 'admin',
  over: Partial<ResolveRequest> = {},
) => engine.resolve(op.key.runId, outcome, { caller: engine.caller(by), ...over })

const stepSeen = async (runId: string) => (await engine.readRun(runId))?.steps[0]

describe('a person resolves an unknown outcome', () => {
  test('events: the call comes before the pause, and the run goes on before the next decision', async () => {
    const op = await unknown()
    await resolve(op, 'retry')
    await engine.go(op)
    expect((await engine.eventsOf(op.key.runId)).slice(3)).toEqual([
      'step.started',
      'step.unknown_outcome',
      'run.paused',
      'run.resumed',
      'step.decided',
    ])
  })

  test('retry: the call is decided and made again; the choice counts once', async () => {
    const op = await unknown()
    await resolve(op, 'retry')
    expect(await engine.effectOf(op)).toMatchObject({ state: 'unknown_outcome', resolved_outcome: 'retry' })
    expect(await engine.go(op)).toBe(2)
    expect(await engine.effectOf(op)).toMatchObject({
      state: 'intent',
      resolved_outcome: null,
      sent_at: null,
    })
  })

  test('done: completed with the given output, and the labels of its inputs', async () => {
    const op = await unknown()
    await resolve(op, 'done', 'admin', { output: { message_id: 'x' } })
    expect(await engine.effectOf(op)).toMatchObject({ state: 'completed', output_labels: ['pii'] })
    expect(await engine.keptOutput(op)).toEqual({ message_id: 'x' })
    expect(await engine.runOf(op.key.runId)).toMatchObject({ status: 'running', nodes_executed: 1 })
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'completed' })
  })

  test('done: adds the labels of label rules', async () => {
    const op = await unknown()
    const rule = { name: 'mail is noted', tools: ['mail_*'], add_labels: ['noted'] }
    await createRule(engine.context, 'label_rule', engine.caller('admin'), labelRuleInput.parse(rule))
    await resolve(op, 'done')
    expect((await engine.effectOf(op))?.output_labels).toEqual(['noted', 'pii'])
  })

  test('fail: failed, and counted', async () => {
    const op = await unknown()
    await resolve(op, 'fail')
    expect(await engine.stepOf(op.key.runId)).toMatchObject({ status: 'failed', error: { code: 'resolved_as_failed', fault: 'policy', retryable: false } }) // prettier-ignore
    expect(await engine.runOf(op.key.runId)).toMatchObject({ status: 'running', nodes_failed: 1 })
  })

  test('a choice for one attempt never settles the next one', async () => {
    const op = await unknown()
    await resolve(op, 'retry', 'admin', { attempt: 1 })
    await loseAgain(op)
    for (const outcome of ['done', 'retry', 'fail'] as const)
      await expect(resolve(op, outcome, 'approver', { attempt: 1 })).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining('is that of attempt 2, not of attempt 1'),
      })
    expect(await engine.effectOf(op)).toMatchObject({ state: 'unknown_outcome', resolved_outcome: null }) // prettier-ignore
    await resolve(op, 'done', 'approver', { attempt: 2 })
    expect(await engine.effectOf(op)).toMatchObject({ state: 'completed', attempt: 2 })
  })

  test('items: a named item of another attempt refuses all, and `all` leaves it out', async () => {
    const [runId, ops] = await engine.items(3)
    for (const op of ops) await engine.lose(op)
    const [op, again] = ops as [StepOp, StepOp]
    await resolve(op, 'retry', 'admin', { items: 1 })
    await loseAgain(again)
    const left = async () => (await stepSeen(runId))?.unresolved_items
    await expect(resolve(op, 'done', 'admin', { items: [0, 1], attempt: 1 })).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('item 1 of step `s` is that of attempt 2'),
    })
    expect(await left()).toEqual([0, 1, 2])
    await resolve(op, 'done', 'admin', { items: 'all', attempt: 1 })
    expect(await left()).toEqual([1])
    await expect(resolve(op, 'done', 'admin', { items: 'all', attempt: 1 })).rejects.toMatchObject({
      code: 'bad_transition',
    })
    await resolve(op, 'fail', 'admin', { items: 'all', attempt: 2 })
    expect(await left()).toEqual([])
  })

  test('items of a step: the answer lists waiting items, and an error names them', async () => {
    const [runId, ops] = await engine.items(3)
    for (const op of ops) await engine.mark(op, await engine.go(op))
    for (const [item, how] of [
      [2, 'unknown_outcome'],
      [0, 'unknown_outcome'],
      [1, 'completed'],
    ] as const)
      await engine.record(outcomeOf(ops[item] as StepOp, 1, how))
    const shown = () => stepSeen(runId)
    expect(await shown()).toMatchObject({ status: 'unknown_outcome', unresolved_items: [0, 2] })
    const op = ops[0] as StepOp
    for (const items of [null, 1, 9999, [0, 1], []]) {
      await expect(resolve(op, 'done', 'admin', { items })).rejects.toMatchObject({
        code: 'bad_transition',
        message: expect.stringContaining('give `item_index`, one of 0, 2'),
      })
    }
    await resolve(op, 'done', 'admin', { items: 0 })
    expect(await shown()).toMatchObject({ status: 'unknown_outcome', unresolved_items: [2] })
    await resolve(op, 'done', 'admin', { items: 2 })
    expect(await shown()).toMatchObject({ status: 'running', unresolved_items: [] })
  })

  test.each(['retry', 'done', 'fail'] as const)(
    '%s names the person in the audit log and wakes the run',
    async (outcome) => {
      const op = await unknown()
      await resolve(op, outcome, 'approver')
      const [entry] = await auditOf(engine.context, engine.organizationId, 1)
      expect(entry).toMatchObject({ user_id: engine.caller('approver').userId, run_id: op.key.runId })
      expect(await engine.wakesOf(op.key.runId)).toEqual([{ key: 's#-1', by: entry?.user_id }])
    },
  )
})

describe('refused, and nothing changes:', () => {
  const waiting = async () => opOf(await engine.run())
  const after = async (make: () => Promise<StepOp>, act: (op: StepOp) => Promise<unknown>) => {
    const op = await make()
    await act(op)
    return op
  }
  const underWay = () => after(waiting, (op) => engine.go(op))
  const resolved = () => after(unknown, (op) => resolve(op, 'retry'))
  const ended = () => after(unknown, ({ key }) => engine.finish(key.runId, 'cancelled'))
  test.each<[string, string, () => Promise<StepOp>, BootstrapName, object]>([
    ['a member', 'insufficient_role', unknown, 'member', {}],
    ['a viewer', 'insufficient_role', unknown, 'viewer', {}],
    ['an unknown run', 'not_found', unknown, 'admin', { runId: 'run_none' }],
    ['an unknown step', 'not_found', unknown, 'admin', { stepId: 'zz' }],
    ['an item that is not there', 'bad_transition', unknown, 'admin', { items: 3 }],
    ['a call that has not begun', 'bad_transition', waiting, 'admin', {}],
    ['a call under way', 'bad_transition', underWay, 'admin', {}],
    ['one that is resolved already', 'bad_transition', resolved, 'admin', {}],
    ['one of a run that has ended', 'bad_transition', ended, 'admin', {}],
  ])('%s → %s', async (_name, code, prepare, by, over) => {
    const op = await prepare()
    const before = await engine.effectOf(op)
    for (const outcome of ['retry', 'done', 'fail'] as const)
      await expect(resolve(op, outcome, by, over)).rejects.toMatchObject({ code })
    expect(await engine.effectOf(op)).toEqual(before)
  })
})

describe('several callers in two processes choose at the same time', () => {
  let processes: readonly Context[]
  beforeAll(() => void (processes = [engine.context, engine.another()]))

  type Choice = ResolveRequest['outcome']
  const choices: readonly Choice[] = ['retry', 'done', 'fail']
  const deciders: readonly BootstrapName[] = ['admin', 'approver', 'owner']

  const unknown = async () => engine.lose(opOf(await engine.run()))
  const resolve = (op: StepOp, n: number, over: Partial<ResolveRequest> = {}) =>
    resolveStep(processes[n % 2] as Context, {
      caller: engine.caller(deciders[n % 3] as BootstrapName),
      runId: op.key.runId,
      stepId: 's',
      items: null,
      outcome: choices[(n >> 1) % 3] as Choice,
      output: { by: n },
      ...over,
    })

  /** The error codes of the refused calls, and the indexes of the successful calls. */
  async function race(calls: readonly Promise<unknown>[]): Promise<{ won: number[]; codes: Set<string> }> {
    const settled = await Promise.allSettled(calls)
    return {
      won: settled.flatMap(({ status }, n) => (status === 'fulfilled' ? [n] : [])),
      codes: new Set(
        settled.flatMap((each) => (each.status === 'rejected' ? [String(each.reason.code)] : [])),
      ),
    }
  }

  /** The choices of people: one audit entry for each call. */
  const settlements = (runId: string) =>
    engine.context.db
      .selectFrom('audit_events')
      .select('user_id')
      .where('organization_id', '=', engine.organizationId)
      .where('run_id', '=', runId)
      .where('event_type', '=', 'tool_call.resolved')
      .execute()

  test('one call: exactly one of twelve choices counts, and it is the one that is recorded', async () => {
    for (let round = 0; round < 6; round += 1) {
      const op = await unknown()
      const { won, codes } = await race(Array.from({ length: 12 }, (_, n) => resolve(op, n)))
      expect({ won: won.length, codes }).toEqual({ won: 1, codes: new Set(['bad_transition']) })
      const winner = won[0] as number
      const outcome = choices[(winner >> 1) % 3]
      const effect = await engine.effectOf(op)
      const run = await engine.runOf(op.key.runId)
      expect([
        effect?.state,
        effect?.resolved_outcome,
        run.nodes_executed,
        run.nodes_failed,
        run.status,
      ]).toEqual(
        { retry: ['unknown_outcome', 'retry', 0, 0, 'paused'], done: ['completed', null, 1, 0, 'running'], fail: ['failed', null, 0, 1, 'running'] }[outcome as Choice], // prettier-ignore
      )
      if (outcome === 'done') expect(await engine.keptOutput(op)).toEqual({ by: winner })
      const by = engine.caller(deciders[winner % 3] as BootstrapName).userId
      expect(await settlements(op.key.runId)).toEqual([{ user_id: by }])
      expect(await engine.wakesOf(op.key.runId)).toEqual([{ key: 's#-1', by }])
    }
  })

  test('choices for the first attempt, while it is made again and lost again: none settles the second attempt', async () => {
    for (let round = 0; round < 6; round += 1) {
      const op = await unknown()
      await resolve(op, 0, { outcome: 'retry', attempt: 1 })
      const late = Array.from({ length: 8 }, (_, n) => resolve(op, n, { attempt: 1 }))
      const { codes } = await race(round % 2 === 0 ? [loseAgain(op), ...late] : [...late, loseAgain(op)])
      expect([...codes].filter((code) => code !== 'bad_transition' && code !== 'conflict')).toEqual([])
      expect(await engine.effectOf(op)).toMatchObject({ state: 'unknown_outcome', attempt: 2, resolved_outcome: null }) // prettier-ignore
      expect(await settlements(op.key.runId)).toHaveLength(1)
    }
  })

  test('items: overlapping choices settle each item once, or none of theirs', async () => {
    const [runId, ops] = await engine.items(8)
    for (const op of ops) await engine.lose(op)
    const sets: readonly ResolveRequest['items'][] = [
      'all',
      [0, 1, 2],
      [2, 3],
      [4, 5, 6, 7],
      6,
      [7, 0],
      [1],
      'all',
    ]
    const { codes } = await race(
      sets.map((items, n) => resolve(ops[0] as StepOp, n, { items, outcome: n % 2 === 0 ? 'done' : 'fail' })),
    )
    expect([...codes].filter((code) => code !== 'bad_transition')).toEqual([])
    const before = await settlements(runId)
    const run = await engine.runOf(runId)
    expect(before).toHaveLength(run.nodes_executed + run.nodes_failed)
    // If any items are still unknown, resolve all remaining items of the step.
    if (run.status === 'paused') await resolve(ops[0] as StepOp, 0, { items: 'all', outcome: 'fail' })
    expect(await settlements(runId)).toHaveLength(8)
    expect(await engine.runOf(runId)).toMatchObject({ status: 'running' })
  })

  test('a late answer, a cancellation and choices: one of them settles the call, and the counters agree', async () => {
    for (let round = 0; round < 6; round += 1) {
      const op = await unknown()
      const calls = [
        ...Array.from({ length: 4 }, (_, n) => resolve(op, n)),
        engine.record(outcomeOf(op, 1, 'completed')),
        cancelRun(processes[round % 2] as Context, { caller: engine.caller('member'), runId: op.key.runId }),
      ]
      const { codes } = await race(round % 2 === 0 ? calls : calls.toReversed())
      expect([...codes].filter((code) => code !== 'bad_transition')).toEqual([])
      const run = await engine.runOf(op.key.runId)
      const effect = await engine.effectOf(op)
      const ended = { completed: [1, 0], failed: [0, 1] }[effect?.state as string] ?? [0, 0]
      expect([run.nodes_executed, run.nodes_failed]).toEqual(ended)
      if (run.finished_at === null)
        expect(run.status).toBe(effect?.state === 'unknown_outcome' ? 'paused' : 'running')
      expect((await settlements(op.key.runId)).length).toBeLessThanOrEqual(1)
    }
  })

  test('a choice and the end of its run: an ended run is never changed by it', async () => {
    for (let round = 0; round < 6; round += 1) {
      const op = await unknown()
      const end = engine.finish(op.key.runId, 'cancelled')
      const [ended, resolved] = await Promise.allSettled([end, resolve(op, 1 + 2 * round)])
      expect(ended.status).toBe('fulfilled')
      if (resolved.status === 'rejected') expect(resolved.reason).toMatchObject({ code: 'bad_transition' })
      const run = await engine.runOf(op.key.runId)
      expect(run.finished_at).not.toBeNull()
      expect(run.nodes_executed + run.nodes_failed).toBeLessThanOrEqual(1)
    }
  })
})
