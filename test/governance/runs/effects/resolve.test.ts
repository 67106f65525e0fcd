import { describe, expect, test } from '@jest/globals'
import type { BootstrapName } from '../../../../src/governance/people/bootstrap.ts'
import { finishRun } from '../../../../src/governance/runs/end/finish.ts'
import { expandStep } from '../../../../src/governance/runs/effects/items.ts'
import { readRun } from '../whole-run.ts'
import { createRule } from '../../../../src/governance/rules/rules.ts'
import { labelRuleInput } from '../../../../src/policy/rule.ts'
import { resolveStep, type ResolveRequest } from '../../../../src/governance/runs/effects/resolve.ts'
import { auditOf } from '../../support.ts'
import {
  effectOf,
  eventsOf,
  go,
  mark,
  opOf,
  outcomeOf,
  runOf,
  useEngine,
  stepOf,
  type Engine,
  type StepOp,
  keptOutput,
} from '../engine-fixture.ts'

let engine: Engine
useEngine((started) => (engine = started))

const unknown = async (): Promise<StepOp> => {
  const op = opOf(await engine.run(), { labels: ['pii'] })
  await go(engine, op)
  await mark(engine.context, op, 1)
  await engine.record(outcomeOf(op, 1, 'unknown_outcome'))
  return op
}
const resolve = (
  op: StepOp,
  outcome: ResolveRequest['outcome'],
  by: BootstrapName = 'admin',
  over: object = {},
) =>
  resolveStep(engine.context, {
    caller: engine.caller(by),
    runId: op.key.runId,
    stepId: 's',
    items: null,
    outcome,
    ...over,
  })

describe('a person resolves an unknown outcome', () => {
  test('events: the call comes before the pause, and the run goes on before the next decision', async () => {
    const op = await unknown()
    await resolve(op, 'retry')
    await go(engine, op)
    expect((await eventsOf(engine.context, op.key.runId)).slice(3)).toEqual([
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
    expect(await effectOf(engine.context, op)).toMatchObject({
      state: 'unknown_outcome',
      resolved_outcome: 'retry',
    })
    expect(await go(engine, op)).toBe(2)
    expect(await effectOf(engine.context, op)).toMatchObject({
      state: 'intent',
      resolved_outcome: null,
      sent_at: null,
    })
  })

  test('done: completed with the given output, and the labels of its inputs', async () => {
    const op = await unknown()
    await resolve(op, 'done', 'admin', { output: { message_id: 'x' } })
    expect(await effectOf(engine.context, op)).toMatchObject({ state: 'completed', output_labels: ['pii'] })
    expect(await keptOutput(engine.context, op)).toEqual({ message_id: 'x' })
    expect(await runOf(engine.context, op.key.runId)).toMatchObject({ status: 'running', nodes_executed: 1 })
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'completed' })
  })

  test('done: adds the labels of label rules', async () => {
    const op = await unknown()
    const rule = { name: 'mail is noted', tools: ['mail_*'], add_labels: ['noted'] }
    await createRule(engine.context, 'label_rule', engine.caller('admin'), labelRuleInput.parse(rule))
    await resolve(op, 'done')
    expect((await effectOf(engine.context, op))?.output_labels).toEqual(['noted', 'pii'])
  })

  test('fail: failed, and counted', async () => {
    const op = await unknown()
    await resolve(op, 'fail')
    expect(await stepOf(engine.context, op.key.runId)).toMatchObject({ status: 'failed', error: { code: 'resolved_as_failed', fault: 'policy', retryable: false } }) // prettier-ignore
    expect(await runOf(engine.context, op.key.runId)).toMatchObject({ status: 'running', nodes_failed: 1 })
  })

  test('a choice for one attempt never settles the next one', async () => {
    const op = await unknown()
    await resolve(op, 'retry', 'admin', { attempt: 1 })
    expect(await go(engine, op)).toBe(2)
    await mark(engine.context, op, 2)
    await engine.record(outcomeOf(op, 2, 'unknown_outcome'))
    for (const outcome of ['done', 'retry', 'fail'] as const)
      await expect(resolve(op, outcome, 'approver', { attempt: 1 })).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining('is that of attempt 2, not of attempt 1'),
      })
    expect(await effectOf(engine.context, op)).toMatchObject({ state: 'unknown_outcome', resolved_outcome: null }) // prettier-ignore
    await resolve(op, 'done', 'approver', { attempt: 2 })
    expect(await effectOf(engine.context, op)).toMatchObject({ state: 'completed', attempt: 2 })
  })

  test('items: a named item of another attempt refuses all, and `all` leaves it out', async () => {
    const items = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' }, for_each: [1, 2, 3] }] }
    const runId = await engine.run(items)
    await expandStep(engine.context, runId, 's')
    const ops = [0, 1, 2].map((item) => opOf(runId, { item }))
    for (const op of ops) {
      await go(engine, op)
      await mark(engine.context, op, 1)
      await engine.record(outcomeOf(op, 1, 'unknown_outcome'))
    }
    const [op, again] = ops as [StepOp, StepOp, StepOp]
    await resolve(op, 'retry', 'admin', { items: 1 })
    await go(engine, again)
    await mark(engine.context, again, 2)
    await engine.record(outcomeOf(again, 2, 'unknown_outcome'))
    const left = async () =>
      (await readRun(engine.context, engine.organizationId, runId))?.steps[0]?.unresolved_items
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
    const items = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' }, for_each: [1, 2, 3] }] }
    const runId = await engine.run(items)
    await expandStep(engine.context, runId, 's')
    const ops = [0, 1, 2].map((item) => opOf(runId, { item, labels: ['pii'] }))
    for (const op of ops) {
      await go(engine, op)
      await mark(engine.context, op, 1)
    }
    await engine.record(outcomeOf(ops[2] as StepOp, 1, 'unknown_outcome'))
    await engine.record(outcomeOf(ops[0] as StepOp, 1, 'unknown_outcome'))
    await engine.record(outcomeOf(ops[1] as StepOp, 1, 'completed'))
    const shown = async () => (await readRun(engine.context, engine.organizationId, runId))?.steps[0]
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
      const [wake] = await engine.context.db
        .selectFrom('outbox')
        .select('payload')
        .where('run_id', '=', op.key.runId)
        .where('kind', '=', 'run.wake')
        .execute()
      expect(wake).toEqual({ payload: { key: 's#-1', by: engine.caller('approver').userId } })
    },
  )
})

const refusals: readonly (readonly [string, string, () => Promise<StepOp>, BootstrapName, object])[] = [
  ['a member', 'insufficient_role', unknown, 'member', {}],
  ['a viewer', 'insufficient_role', unknown, 'viewer', {}],
  ['an unknown run', 'not_found', unknown, 'admin', { runId: 'run_none' }],
  ['an unknown step', 'not_found', unknown, 'admin', { stepId: 'zz' }],
  ['an item that is not there', 'bad_transition', unknown, 'admin', { items: 3 }],
  ['a call that has not begun', 'bad_transition', async () => opOf(await engine.run()), 'admin', {}],
  [
    'a call under way',
    'bad_transition',
    async () => {
      const op = opOf(await engine.run())
      await go(engine, op)
      return op
    },
    'admin',
    {},
  ],
  [
    'one that is resolved already',
    'bad_transition',
    async () => {
      const op = await unknown()
      await resolve(op, 'retry')
      return op
    },
    'admin',
    {},
  ],
  [
    'one of a run that has ended',
    'bad_transition',
    async () => {
      const op = await unknown()
      await finishRun(engine.context, { runId: op.key.runId, status: 'cancelled' })
      return op
    },
    'admin',
    {},
  ],
]

describe('refused, and nothing changes:', () => {
  test.each(refusals.map((each) => [each[0], each[1], each] as const))(
    '%s → %s',
    async (_name, code, refusal) => {
      const [, , prepare, by, over] = refusal
      const op = await prepare()
      const before = await effectOf(engine.context, op)
      for (const outcome of ['retry', 'done', 'fail'] as const)
        await expect(resolve(op, outcome, by, over)).rejects.toMatchObject({ code })
      expect(await effectOf(engine.context, op)).toEqual(before)
    },
  )
})
