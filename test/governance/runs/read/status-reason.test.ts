import { beforeEach, describe, expect, test } from '@jest/globals'
import { cancelRun } from '../../../../src/governance/runs/end/cancel.ts'
import { expandStep } from '../../../../src/governance/runs/effects/items.ts'
import { resolveStep } from '../../../../src/governance/runs/effects/resolve.ts'
import { listRuns } from '../../../../src/governance/runs/read/read.ts'
import { enterRun } from '../../../../src/governance/runs/start/enter.ts'
import {
  approvalsOf,
  go,
  hold,
  holdRule,
  mark,
  opOf,
  outcomeOf,
  useEngine,
  type Engine,
  type StepOp,
} from '../engine-fixture.ts'
import { readRun } from '../whole-run.ts'

let engine: Engine
useEngine((started) => (engine = started))
beforeEach(async () => {
  engine.context.isTemporalAway = false
  await engine.settings({ approval_threshold: 1, approval_required_from: null, allow_self_approval: false })
})

const eachItem = (count: number) => ({
  steps: [
    { id: 's', tool: 'memory_get', params: { key: 'k' }, for_each: Array.from({ length: count }, () => 1) },
  ],
})
/** The `status_reason` of the run, which must be the same in the list of runs. */
async function reasonOf(runId: string): Promise<string> {
  const run = await readRun(engine.context, engine.organizationId, runId)
  const list = await listRuns(engine.context, engine.organizationId, {}, { limit: 200, cursor: null })
  expect(list.data.find(({ id }) => id === runId)?.status_reason).toBe(run?.status_reason)
  return run?.status_reason ?? ''
}
async function items(count: number): Promise<[string, StepOp[]]> {
  const runId = await engine.run(eachItem(count))
  await expandStep(engine.context, runId, 's')
  return [runId, Array.from({ length: count }, (_, item) => opOf(runId, { item }))]
}
async function unknown(op: StepOp): Promise<void> {
  await go(engine, op)
  await mark(engine.context, op, 1)
  await engine.record(outcomeOf(op, 1, 'unknown_outcome'))
}
const approvers = 'approval by an admin or owner (rule `h`)'

describe('a run that waits says', () => {
  test('how many votes are given and missing, with the threshold and the roles of now', async () => {
    await engine.rules(holdRule({ name: 'h', approvals_needed: 2 }))
    const runId = await engine.run()
    const id = await hold(engine, opOf(runId))
    const waits = `step \`s\` waits for ${approvers}`
    expect(await reasonOf(runId)).toBe(`${waits}: 0 of 2 votes given, 2 missing`)
    await engine.vote(id, 'admin')
    expect(await reasonOf(runId)).toBe(`${waits}: 1 of 2 votes given, 1 missing`)
    await engine.settings({ approval_threshold: 3 })
    expect(await reasonOf(runId)).toBe(`${waits}: 1 of 3 votes given, 2 missing`)
    await engine.settings({ approval_threshold: 1 })
    await engine.vote(id, 'owner')
    expect(await reasonOf(runId)).toBe('step `s` is decided: the run goes on as soon as a worker takes it up')
    expect(await go(engine, opOf(runId))).toBe(1)
    expect(await reasonOf(runId)).toBe('the run is in progress')
  })

  test('how many items wait, and counts their votes', async () => {
    await engine.rules(holdRule({ name: 'h', approvals_needed: 2 }))
    const [runId, ops] = await items(3)
    const ids = []
    for (const op of ops) ids.push(await hold(engine, op))
    expect(await reasonOf(runId)).toBe(
      `3 items of step \`s\` wait for ${approvers}: 0 of 6 votes given, 6 missing (2 for each item)`,
    )
    await engine.vote(ids[0] as string, 'admin')
    expect(await reasonOf(runId)).toBe(
      `3 items of step \`s\` wait for ${approvers}: 1 of 6 votes given, 5 missing (2 for each item)`,
    )
    for (const id of ids.slice(0, 2)) await engine.vote(id, 'owner')
    await engine.vote(ids[1] as string, 'admin')
    expect(await reasonOf(runId)).toBe(
      `item 2 of step \`s\` waits for ${approvers}: 0 of 2 votes given, 2 missing`,
    )
  })

  test('which outcomes are unknown, and until when', async () => {
    const [runId, ops] = await items(3)
    const admin = engine.caller('admin')
    for (const op of ops.slice(0, 2)) await unknown(op)
    expect(await reasonOf(runId)).toBe(
      '2 items of step `s` may or may not have taken effect: an approver must resolve them',
    )
    await resolveStep(engine.context, { caller: admin, runId, stepId: 's', items: 1, outcome: 'done' })
    expect(await reasonOf(runId)).toBe(
      'item 0 of step `s` may or may not have taken effect: an approver must resolve it',
    )
    await resolveStep(engine.context, { caller: admin, runId, stepId: 's', items: 0, outcome: 'retry' })
    expect(await reasonOf(runId)).toBe(
      'item 0 of step `s` is decided: the run goes on as soon as a worker takes it up',
    )
  })

  test('all that it waits for at once', async () => {
    const [runId, ops] = await items(2)
    await unknown(ops[0] as StepOp)
    await engine.rules(holdRule({ name: 'h' }))
    await hold(engine, ops[1] as StepOp)
    expect(await reasonOf(runId)).toBe(
      `item 1 of step \`s\` waits for ${approvers}: 0 of 1 vote given, 1 missing; ` +
        'item 0 of step `s` may or may not have taken effect: an approver must resolve it',
    )
  })

  test('why the whole run waits, and how many votes are missing', async () => {
    await engine.settings({ approval_required_from: 'low', approval_threshold: 2 })
    const runId = await engine.run()
    const [approval] = await approvalsOf(engine.context, runId)
    expect(await reasonOf(runId)).toMatch(
      /^the run waits for approval: its risk is .*: 0 of 2 votes given, 2 missing$/,
    )
    await engine.vote(approval?.id ?? '', 'admin')
    expect(await reasonOf(runId)).toMatch(/: 1 of 2 votes given, 1 missing$/)
    await engine.vote(approval?.id ?? '', 'owner')
    expect(await reasonOf(runId)).toBe('the run is approved: the run goes on as soon as a worker takes it up')
    engine.context.isTemporalAway = true
    expect(await reasonOf(runId)).toBe(
      'the run is approved; Temporal cannot be reached, so the run goes on only once it is back',
    )
    engine.context.isTemporalAway = false
    expect(await enterRun(engine.context, runId)).toEqual({ state: 'go' })
    expect(await reasonOf(runId)).toBe('the run is in progress')
  })

  test('that Temporal is away, in every state in which it must go on', async () => {
    const queued = await engine.run()
    const running = await engine.run()
    await go(engine, opOf(running))
    await engine.rules(holdRule({ name: 'h' }))
    const held = await engine.run()
    const approvalId = await hold(engine, opOf(held))
    expect(await reasonOf(queued)).toBe('the run waits for a worker')
    engine.context.isTemporalAway = true
    expect(await reasonOf(queued)).toBe('Temporal cannot be reached: the run starts once it is back')
    expect(await reasonOf(running)).toBe('Temporal cannot be reached: the run goes on once it is back')
    expect(await reasonOf(held)).toBe(
      `step \`s\` waits for ${approvers}: 0 of 1 vote given, 1 missing; ` +
        'Temporal cannot be reached, so the run goes on only once it is back',
    )
    await engine.vote(approvalId, 'admin')
    expect(await reasonOf(held)).toBe(
      'step `s` is decided; Temporal cannot be reached, so the run goes on only once it is back',
    )
    await cancelRun(engine.context, { caller: engine.caller('admin'), runId: held })
    expect(await reasonOf(held)).toBe(`the run was cancelled by \`${engine.caller('admin').email}\``)
  })
})

describe('a cancelled run says by whom and why', () => {
  test.each([
    [{ reason: 'wrong customer' }, ' with the reason `wrong customer`'],
    [{ reason: ' \n' }, ''],
    [{}, ''],
  ])('%j', async (body, why) => {
    const caller = engine.caller('admin')
    const idle = await engine.run()
    await cancelRun(engine.context, { caller, runId: idle, ...body })
    expect(await reasonOf(idle)).toBe(`the run was cancelled by \`${caller.email}\`${why}`)
    const busy = await engine.run()
    await go(engine, opOf(busy))
    await cancelRun(engine.context, { caller, runId: busy, ...body })
    expect(await reasonOf(busy)).toBe(`the run is being cancelled by \`${caller.email}\`${why}`)
  })
})
