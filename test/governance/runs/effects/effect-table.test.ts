import { describe, expect, test } from '@jest/globals'
import type { Repeat } from '../../../../src/catalog/tool.ts'
import { resolveStep } from '../../../../src/governance/runs/effects/resolve.ts'
import {
  denyRule,
  effectOf,
  go,
  hold,
  holdRule,
  makeLate,
  mark,
  opOf,
  outcomeOf,
  runOf,
  useEngine,
  toolOf,
  type Engine,
  type StepOp,
} from '../engine-fixture.ts'

let engine: Engine
useEngine((started) => (engine = started))

const choose = (outcome: 'retry', { key: { runId, stepId } }: StepOp) =>
  resolveStep(engine.context, { caller: engine.caller('admin'), runId, stepId, items: null, outcome })

/** Brings a new call into a state by the normal operations. */
const states: Record<string, (op: StepOp) => Promise<unknown>> = {
  'no row': async () => {},
  'held, pending': async (op: StepOp) => {
    await engine.rules(holdRule())
    return hold(engine, op)
  },
  'held, approved': async (op: StepOp) => engine.vote(await reach('held, pending', op), 'admin'),
  'held, rejected': async (op: StepOp) => engine.vote(await reach('held, pending', op), 'admin', 'reject'),
  'held, late': async (op: StepOp) => makeLate(engine.context, await reach('held, pending', op)),
  'held, approved but late': async (op: StepOp) => {
    const id = await reach('held, pending', op)
    await engine.vote(id, 'admin')
    await makeLate(engine.context, id)
  },
  'held, withdrawn': async (op: StepOp) => {
    const id = await reach('held, pending', op)
    await engine.context.db
      .updateTable('approvals')
      .set({ status: 'cancelled' })
      .where('id', '=', id)
      .execute()
  },
  intent: async (op: StepOp) => {
    await engine.rules()
    await go(engine, op)
  },
  sent: async (op: StepOp) => {
    await reach('intent', op)
    expect(await mark(engine.context, op, 1)).toBe('yes')
  },
  'sent, decided again': async (op: StepOp) => {
    await reach('sent', op)
    await engine.decide(op)
  },
  'sent, held again': async (op: StepOp) => {
    await reach('sent', op)
    await engine.rules(holdRule())
    return hold(engine, op)
  },
  'sent with a key': async (op: StepOp) => {
    await reach('intent', op)
    expect(await mark(engine.context, op, 1, 'a connection')).toBe('yes')
  },
  'sent with a key, twice': async (op: StepOp) => {
    await reach('sent with a key', op)
    await engine.decide(op)
    expect(await mark(engine.context, op, 2, 'a connection')).toBe('yes')
  },
  'sent with a key, held again': async (op: StepOp) => {
    await reach('sent with a key', op)
    await engine.rules(holdRule())
    return hold(engine, op)
  },
  'sent with a key, retry': async (op: StepOp) => {
    await reach('sent with a key', op)
    await engine.record(outcomeOf(op, 1, 'retry'))
  },
  'sent with a key, unknown, retry chosen': async (op: StepOp) => {
    await reach('sent with a key', op)
    await engine.record(outcomeOf(op, 1, 'unknown_outcome'))
    await choose('retry', op)
  },
  retry: async (op: StepOp) => {
    await reach('sent', op)
    await engine.record(outcomeOf(op, 1, 'retry'))
  },
  unknown: async (op: StepOp) => {
    await reach('sent', op)
    await engine.record(outcomeOf(op, 1, 'unknown_outcome'))
  },
  'unknown, retry chosen': async (op: StepOp) => {
    await reach('unknown', op)
    await choose('retry', op)
  },
  'unknown, retry held': async (op: StepOp) => {
    await reach('unknown, retry chosen', op)
    await engine.rules(holdRule())
    return hold(engine, op)
  },
  'unknown, retry rejected': async (op: StepOp) =>
    engine.vote(await reach('unknown, retry held', op), 'admin', 'reject'),
  completed: async (op: StepOp) => {
    await reach('intent', op)
    await engine.record(outcomeOf(op, 1, 'completed'))
  },
  failed: async (op: StepOp) => {
    await reach('intent', op)
    await engine.record(outcomeOf(op, 1, 'failed'))
  },
  cancelled: async (op: StepOp) => {
    await reach('intent', op)
    await engine.record(outcomeOf(op, 1, 'cancelled'))
  },
  denied: async (op: StepOp) => {
    await engine.rules(denyRule())
    await engine.decide(op)
  },
  rejected: async (op: StepOp) => {
    await reach('held, rejected', op)
    await engine.decide(op)
  },
  expired: async (op: StepOp) => {
    await reach('held, late', op)
    await engine.decide(op)
  },
  skipped: async (op: StepOp) => {
    await engine.decide({ ...op, wanted: false })
  },
}
const reach = async (state: string, op: StepOp): Promise<string> => (await states[state]?.(op)) as string

/**
 * For each state: the new decision if the rules now allow, hold or deny the call. `go 2` means that the body runs as
 * attempt 2. `look 2` means that attempt 2 first looks for the result of an earlier attempt.
 */
const everyKind: readonly (readonly [string, string, string, string])[] = [
  ['no row', 'go 1', 'held', 'denied'],
  ['held, pending', 'go 1', 'held', 'denied'],
  ['held, approved', 'go 1', 'go 1', 'denied'],
  ['held, rejected', 'rejected', 'rejected', 'denied'],
  ['held, late', 'expired', 'expired', 'denied'],
  ['held, approved but late', 'go 1', 'expired', 'denied'],
  ['held, withdrawn', 'cancelled', 'cancelled', 'denied'],
  ['completed', 'completed', 'completed', 'completed'],
  ['failed', 'failed', 'failed', 'failed'],
  ['cancelled', 'cancelled', 'cancelled', 'cancelled'],
  ['denied', 'denied', 'denied', 'denied'],
  ['rejected', 'rejected', 'rejected', 'rejected'],
  ['expired', 'expired', 'expired', 'expired'],
  ['skipped', 'skipped', 'skipped', 'skipped'],
]
const harmless: typeof everyKind = [['intent', 'go 2', 'held', 'denied']]
const unresolved: typeof everyKind = [
  ['retry', 'go 2', 'held', 'denied'],
  ['unknown', 'unknown_outcome', 'unknown_outcome', 'unknown_outcome'],
  ['unknown, retry chosen', 'go 2', 'held', 'unknown_outcome'],
  ['unknown, retry held', 'go 2', 'held', 'unknown_outcome'],
  // A rejection only refuses the retry. It does not mean that the call never happened.
  ['unknown, retry rejected', 'unknown_outcome', 'unknown_outcome', 'unknown_outcome'],
]
const tables: Record<Repeat, typeof everyKind> = {
  free: [...everyKind, ...harmless],
  transactional: [...everyKind, ...harmless],
  keyed: [
    ...everyKind,
    ['intent', 'go 2', 'held', 'unknown_outcome'],
    ['sent', 'go 2', 'held', 'unknown_outcome'],
    ...unresolved,
  ],
  findable: [
    ...everyKind,
    ...harmless,
    ['sent', 'look 2', 'held', 'unknown_outcome'],
    ['sent, decided again', 'look 3', 'held', 'unknown_outcome'],
    ['sent, held again', 'look 2', 'held', 'unknown_outcome'],
    ...unresolved,
  ],
  unsafe: [
    ...everyKind,
    ...harmless,
    ['sent', 'unknown_outcome', 'unknown_outcome', 'unknown_outcome'],
    ['sent with a key', 'look 2', 'held', 'unknown_outcome'],
    ['sent with a key, twice', 'look 3', 'held', 'unknown_outcome'],
    ['sent with a key, held again', 'look 2', 'held', 'unknown_outcome'],
    ['sent with a key, retry', 'go 2', 'held', 'denied'],
    ['sent with a key, unknown, retry chosen', 'go 2', 'held', 'unknown_outcome'],
    ...unresolved,
  ],
}

describe('deciding a call again, by its state and the present rules', () => {
  const rules = { allow: [], hold: [holdRule()], deny: [denyRule()] }
  for (const [repeat, rows] of Object.entries(tables) as [Repeat, typeof everyKind][])
    test.each(rows)(`${repeat}: %s → %s / %s / %s`, async (state, ...expected) => {
      for (const [place, now] of Object.values(rules).entries()) {
        const op = opOf(await engine.run(), { tool: toolOf(repeat) })
        await reach(state, op)
        const before = await effectOf(engine.context, op)
        await engine.rules(...now)
        const verdict = await engine.decide(op)
        const runs = verdict.go && (verdict.sentSecondsAgo === null ? 'go' : 'look')
        expect(verdict.go ? `${runs} ${verdict.attempt}` : verdict.state).toBe(expected[place])
        const after = await effectOf(engine.context, op)
        expect(after?.state).toBe(verdict.go ? 'intent' : verdict.state)
        if (before?.finished_at) expect(after).toEqual(before)
        const run = await runOf(engine.context, op.key.runId)
        const waits = !verdict.go && ['held', 'unknown_outcome'].includes(verdict.state)
        expect(run.status).toBe(waits ? 'paused' : 'running')
        const pending = await engine.context.db
          .selectFrom('approvals')
          .select('id')
          .where('run_id', '=', op.key.runId)
          .where('status', '=', 'pending')
          .execute()
        expect(pending).toHaveLength(!verdict.go && verdict.state === 'held' ? 1 : 0)
      }
    })
})
