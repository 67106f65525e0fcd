import { describe, expect, test } from '@jest/globals'
import { workflowDefinition } from '../../../../src/contract/definition.ts'
import { cancelRun } from '../../../../src/governance/runs/end/cancel.ts'
import { sql } from 'kysely'
import { endCancelled, FailedRuns } from '../../../../src/governance/runs/end/end-cancelled.ts'
import { acceptRun } from '../../../../src/governance/runs/start/accept.ts'
import { decideSteps } from '../../../../src/governance/runs/effects/effect.ts'
import { createWorkflow } from '../../../../src/governance/workflows/workflows.ts'
import { addOrganization } from '../../../api/fixtures.ts'
import { asAdmin } from '../../../support/postgres.ts'
import { go, mark, oneStep, opOf, outcomeOf, runOf, stepOf, toolOf, useEngine, type Engine, type StepOp } from '../engine-fixture.ts' // prettier-ignore

/* Cancelled runs whose workers no longer answer. */

let engine: Engine
useEngine((started) => (engine = started))

const cancel = (op: StepOp) =>
  cancelRun(engine.context, { caller: engine.caller('member'), runId: op.key.runId })
const statusOf = async (op: StepOp) => (await runOf(engine.context, op.key.runId)).status
/** Makes every open cancellation one minute older. */
const later = () =>
  engine.context.pool.query(`update runs set cancel_requested_at = cancel_requested_at - interval '1 minute'
                             where finished_at is null and cancel_requested_at is not null`)

test('a run with no call in progress ends with its cancellation', async () => {
  const op = opOf(await engine.run())
  await cancel(op)
  expect(await statusOf(op)).toBe('cancelled')
  await cancel(op)
  expect(await engine.decide(op)).toMatchObject({ go: false, state: 'cancelled' })
})

test('a call in progress gets a moment to end, then the run ends without it', async () => {
  const op = opOf(await engine.run(), { tool: toolOf('free') })
  await go(engine, op)
  await cancel(op)
  expect(await endCancelled(engine.context)).toBe(0)
  expect(await statusOf(op)).toBe('running')
  await later()
  expect(await endCancelled(engine.context)).toBe(1)
  expect(await statusOf(op)).toBe('cancelled')
  expect(await engine.record(outcomeOf(op, 1, 'completed'))).toBe('cancelled')
  expect(await endCancelled(engine.context)).toBe(0)
})

test('a mail before its point of no return is not sent', async () => {
  const op = opOf(await engine.run())
  await go(engine, op)
  await cancel(op)
  await later()
  expect(await endCancelled(engine.context)).toBe(1)
  expect(await mark(engine.context, op, 1)).toBe('superseded')
})

async function cancelledWhileSent(item = -1): Promise<StepOp> {
  const op = opOf(await engine.run(), { item })
  await go(engine, op)
  await mark(engine.context, op, 1)
  await cancel(op)
  return op
}
const stepStatusOf = async (op: StepOp) => (await stepOf(engine.context, op.key.runId)).status

test('a call that may have acted also gets a moment to end; then the run ends, and nothing is sent again', async () => {
  const op = await cancelledWhileSent()
  expect(await endCancelled(engine.context)).toBe(0)
  await later()
  expect(await endCancelled(engine.context)).toBe(1)
  expect(await statusOf(op)).toBe('cancelled')
  expect(await stepStatusOf(op)).toBe('unknown_outcome')
  expect(await engine.decide(op)).toMatchObject({ go: false, state: 'cancelled' })
  expect(await mark(engine.context, op, 1)).toBe('superseded')
})

test('the worker of such a call records its outcome in the ended run', async () => {
  const op = await cancelledWhileSent()
  await later()
  expect(await endCancelled(engine.context)).toBe(1)
  expect(await engine.record(outcomeOf(op, 1, 'completed'))).toBe('completed')
  expect(await stepStatusOf(op)).toBe('completed')
  expect(await statusOf(op)).toBe('cancelled')
})

test('a late outcome of an item changes the item, but not the ended step', async () => {
  const op = await cancelledWhileSent(0)
  await later()
  await endCancelled(engine.context)
  expect(await engine.record(outcomeOf(op, 1, 'completed'))).toBe('completed')
  expect(await stepStatusOf(op)).toBe('unknown_outcome')
})

/** Moves the cancellation of these runs to this time. */
const cancelledAt = (time: Date, runIds: readonly string[]) =>
  engine.context.pool.query('update runs set cancel_requested_at = $1 where id = any($2)', [time, runIds])

test.each<[string, number, (op: StepOp) => Promise<unknown>]>([
  ['has certainly not acted', 2, () => Promise.resolve()],
  ['may have acted', 3, (op) => mark(engine.context, op, 1)],
])('a run with a call that %s ends %d s after its cancellation', async (_, seconds, act) => {
  // With a pass each second, this leaves a second until the 5 s that the documentation names.
  expect(seconds + 1).toBeLessThan(5)
  const op = opOf(await engine.run())
  await go(engine, op)
  await act(op)
  await cancel(op)
  const time = new Date()
  await cancelledAt(time, [op.key.runId])
  const passAfter = (milliseconds: number) =>
    endCancelled(engine.context, {
      now: sql`${new Date(time.getTime() + milliseconds)}::timestamptz`,
    })
  expect(await passAfter(seconds * 1_000 - 100)).toBe(0)
  expect(await statusOf(op)).toBe('running')
  expect(await passAfter(seconds * 1_000 + 100)).toBe(1)
  expect(await statusOf(op)).toBe('cancelled')
})

describe('an organization that cancels many runs, one of which cannot be ended', () => {
  const workflow = { name: 'w', description: '', definition: workflowDefinition.parse(oneStep) }
  /** A cancelled run of another organization, whose call is in progress. */
  async function neighbours(): Promise<string> {
    const { context } = engine
    const { id, owner } = await addOrganization(context)
    const caller = { ...engine.caller('owner'), ...owner, organizationId: id }
    const { id: workflowId } = await createWorkflow(context, caller, workflow)
    const { runId } = await acceptRun(context, { caller, workflowId, inputs: {} })
    const op = opOf(runId)
    await context.combiner.join(id, decideSteps, op)
    await cancelRun(context, { caller, runId })
    return runId
  }
  const poison = (runId: string) =>
    asAdmin(engine.adminUrl, (client) =>
      client.query(`create function refuse() returns trigger language plpgsql as $$
          begin raise exception 'this row is broken'; end $$;
        create trigger poisoned before update on runs for each row
          when (new.id = '${runId}' and new.finished_at is not null) execute function refuse()`),
    )
  const heal = () => asAdmin(engine.adminUrl, (client) => client.query('drop function refuse() cascade'))

  test('delays nobody: organizations take turns, and the broken run is tried again later', async () => {
    const { context } = engine
    const ours = await Promise.all(Array.from({ length: 60 }, () => engine.run()))
    for (const runId of ours) await go(engine, opOf(runId))
    for (const runId of ours) await cancelRun(context, { caller: engine.caller('member'), runId })
    const theirs = await neighbours()
    const [broken = ''] = ours
    await cancelledAt(new Date(Date.now() - 60_000), [theirs])
    await cancelledAt(new Date(Date.now() - 120_000), ours)
    await cancelledAt(new Date(Date.now() - 180_000), [broken])
    await poison(broken)
    let clock = 0
    const pass = { failed: new FailedRuns(() => clock) }
    try {
      expect(await endCancelled(context, pass)).toBeGreaterThan(0)
      expect((await runOf(context, theirs)).status).toBe('cancelled')
      while ((await endCancelled(context, pass)) > 0);
      const open = await context.db.selectFrom('runs').select('id').where('finished_at', 'is', null).execute()
      expect(open.filter(({ id }) => ours.includes(id))).toEqual([{ id: broken }])
    } finally {
      await heal()
    }
    clock = 29_000
    expect(await endCancelled(context, pass)).toBe(0)
    clock = 31_000
    expect(await endCancelled(context, pass)).toBe(1)
    expect((await runOf(context, broken)).status).toBe('cancelled')
  })
})
