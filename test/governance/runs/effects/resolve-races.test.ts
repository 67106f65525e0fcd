import { expect, test } from '@jest/globals'
import type { Context } from '../../../../src/governance/context.ts'
import type { BootstrapName } from '../../../../src/governance/people/bootstrap.ts'
import { expandStep } from '../../../../src/governance/runs/effects/items.ts'
import { finishRun } from '../../../../src/governance/runs/end/finish.ts'
import { cancelRun } from '../../../../src/governance/runs/end/cancel.ts'
import { resolveStep, type ResolveRequest } from '../../../../src/governance/runs/effects/resolve.ts'
import {
  effectOf,
  go,
  keptOutput,
  mark,
  opOf,
  outcomeOf,
  runOf,
  useEngine,
  type Engine,
  type StepOp,
} from '../engine-fixture.ts'

/* Several callers in two processes choose different resolutions for one unknown outcome at the same time. */

let engine: Engine
let processes: readonly Context[]
useEngine((started) => {
  engine = started
  processes = [engine.context, engine.another()]
})

type Choice = ResolveRequest['outcome']
const choices: readonly Choice[] = ['retry', 'done', 'fail']
const deciders: readonly BootstrapName[] = ['admin', 'approver', 'owner']

async function unknown(op: StepOp): Promise<StepOp> {
  await go(engine, op)
  await mark(engine.context, op, 1)
  await engine.record(outcomeOf(op, 1, 'unknown_outcome'))
  return op
}

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
    codes: new Set(settled.flatMap((each) => (each.status === 'rejected' ? [String(each.reason.code)] : []))),
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

const wakes = (runId: string) =>
  engine.context.db
    .selectFrom('outbox')
    .select('payload')
    .where('run_id', '=', runId)
    .where('kind', '=', 'run.wake')
    .execute()

test('one call: exactly one of twelve choices counts, and it is the one that is recorded', async () => {
  for (let round = 0; round < 6; round += 1) {
    const op = await unknown(opOf(await engine.run()))
    const { won, codes } = await race(Array.from({ length: 12 }, (_, n) => resolve(op, n)))
    expect({ won: won.length, codes }).toEqual({ won: 1, codes: new Set(['bad_transition']) })
    const winner = won[0] as number
    const outcome = choices[(winner >> 1) % 3]
    const effect = await effectOf(engine.context, op)
    const run = await runOf(engine.context, op.key.runId)
    expect([
      effect?.state,
      effect?.resolved_outcome,
      run.nodes_executed,
      run.nodes_failed,
      run.status,
    ]).toEqual(
      { retry: ['unknown_outcome', 'retry', 0, 0, 'paused'], done: ['completed', null, 1, 0, 'running'], fail: ['failed', null, 0, 1, 'running'] }[outcome as Choice], // prettier-ignore
    )
    if (outcome === 'done') expect(await keptOutput(engine.context, op)).toEqual({ by: winner })
    const by = engine.caller(deciders[winner % 3] as BootstrapName).userId
    expect(await settlements(op.key.runId)).toEqual([{ user_id: by }])
    expect(await wakes(op.key.runId)).toEqual([{ payload: { key: 's#-1', by } }])
  }
})

test('choices for the first attempt, while it is made again and lost again: none settles the second attempt', async () => {
  for (let round = 0; round < 6; round += 1) {
    const op = await unknown(opOf(await engine.run()))
    await resolve(op, 0, { outcome: 'retry', attempt: 1 })
    const again = async (): Promise<void> => {
      await go(engine, op)
      await mark(engine.context, op, 2)
      await engine.record(outcomeOf(op, 2, 'unknown_outcome'))
    }
    const late = Array.from({ length: 8 }, (_, n) => resolve(op, n, { attempt: 1 }))
    const { codes } = await race(round % 2 === 0 ? [again(), ...late] : [...late, again()])
    expect([...codes].filter((code) => code !== 'bad_transition' && code !== 'conflict')).toEqual([])
    expect(await effectOf(engine.context, op)).toMatchObject({ state: 'unknown_outcome', attempt: 2, resolved_outcome: null }) // prettier-ignore
    expect(await settlements(op.key.runId)).toHaveLength(1)
  }
})

test('items: overlapping choices settle each item once, or none of theirs', async () => {
  const runId = await engine.run({ steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' }, for_each: Array.from({ length: 8 }, (_, n) => n) }] }) // prettier-ignore
  await expandStep(engine.context, runId, 's')
  const ops = await Promise.all(Array.from({ length: 8 }, (_, item) => unknown(opOf(runId, { item }))))
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
  const run = await runOf(engine.context, runId)
  expect(before).toHaveLength(run.nodes_executed + run.nodes_failed)
  // If any items are still unknown, resolve all remaining items of the step.
  if (run.status === 'paused') await resolve(ops[0] as StepOp, 0, { items: 'all', outcome: 'fail' })
  expect(await settlements(runId)).toHaveLength(8)
  expect(await runOf(engine.context, runId)).toMatchObject({ status: 'running' })
})

test('a late answer, a cancellation and choices: one of them settles the call, and the counters agree', async () => {
  for (let round = 0; round < 6; round += 1) {
    const op = await unknown(opOf(await engine.run()))
    const calls = [
      ...Array.from({ length: 4 }, (_, n) => resolve(op, n)),
      engine.record(outcomeOf(op, 1, 'completed')),
      cancelRun(processes[round % 2] as Context, { caller: engine.caller('member'), runId: op.key.runId }),
    ]
    const { codes } = await race(round % 2 === 0 ? calls : calls.toReversed())
    expect([...codes].filter((code) => code !== 'bad_transition')).toEqual([])
    const run = await runOf(engine.context, op.key.runId)
    const effect = await effectOf(engine.context, op)
    const ended = { completed: [1, 0], failed: [0, 1] }[effect?.state as string] ?? [0, 0]
    expect([run.nodes_executed, run.nodes_failed]).toEqual(ended)
    if (run.finished_at === null)
      expect(run.status).toBe(effect?.state === 'unknown_outcome' ? 'paused' : 'running')
    expect((await settlements(op.key.runId)).length).toBeLessThanOrEqual(1)
  }
})

test('a choice and the end of its run: an ended run is never changed by it', async () => {
  for (let round = 0; round < 6; round += 1) {
    const op = await unknown(opOf(await engine.run()))
    const end = finishRun(engine.context, { runId: op.key.runId, status: 'cancelled' })
    const [ended, resolved] = await Promise.allSettled([end, resolve(op, 1 + 2 * round)])
    expect(ended.status).toBe('fulfilled')
    if (resolved.status === 'rejected') expect(resolved.reason).toMatchObject({ code: 'bad_transition' })
    const run = await runOf(engine.context, op.key.runId)
    expect(run.finished_at).not.toBeNull()
    expect(run.nodes_executed + run.nodes_failed).toBeLessThanOrEqual(1)
  }
})
