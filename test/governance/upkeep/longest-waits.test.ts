import { beforeEach, expect, test } from '@jest/globals'
import { pino } from 'pino'
import { newId } from '../../../src/contract/ids.ts'
import { longestWaits } from '../../../src/db/queries/upkeep/find-longest-waits.ts'
import { measureStoredState } from '../../../src/db/queries/upkeep/measure-state.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { longestWaitsTeller } from '../../../src/governance/upkeep/longest-waits.ts'
import { go, hold, holdRule, mark, opOf, outcomeOf, useEngine, type Engine, type StepOp } from '../runs/engine-fixture.ts' // prettier-ignore

/*
 * The approvals and outcomes that have waited longest for a person, as operators see them in the log and in the
 * metrics.
 */

let engine: Engine
useEngine((started) => (engine = started))

type Line = Readonly<Record<string, unknown>>
/** Everything that the teller has logged. */
let lines: Line[]
let tell: () => Promise<void>
beforeEach(async () => {
  // Ends the approvals that earlier tests have left pending.
  await engine.context.pool.query(`update approvals set status = 'cancelled' where status = 'pending'`)
  lines = []
  tell = newTeller()
})
/** A teller that has reported nothing yet, as after a start of the worker. */
function newTeller(): () => Promise<void> {
  const write = (line: string) => void lines.push(JSON.parse(line) as Line)
  const log = pino({ base: null, timestamp: false }, { write })
  return longestWaitsTeller({ db: engine.context.db, log })
}
const told = async (): Promise<Line[]> => {
  lines.length = 0
  await tell()
  return [...lines]
}

/** Holds a step, and makes its approval this many minutes older. */
const held = async (minutes: number): Promise<{ approvalId: string; runId: string }> => {
  const op = opOf(await engine.run())
  const approvalId = await hold(engine, op)
  await engine.context.pool.query(
    'update approvals set created_at = now() - make_interval(mins => $2) where id = $1',
    [approvalId, minutes],
  )
  return { approvalId, runId: op.key.runId }
}
const unknown = async (): Promise<StepOp> => {
  const op = opOf(await engine.run())
  await go(engine, op)
  await mark(engine.context, op, 1)
  await engine.record(outcomeOf(op, 1, 'unknown_outcome'))
  await engine.context.pool.query(
    `update effects set sent_at = now() - interval '2 hours' where run_id = $1`,
    [op.key.runId],
  )
  return op
}

test('the oldest approval of each kind is named by its ids, and nothing else of it', async () => {
  await engine.rules(holdRule())
  await held(5)
  const { approvalId, runId } = await held(90)
  await held(30)
  const agents = newId('approval')
  await engine.context.pool.query(
    `insert into approvals (id, organization_id, kind, requested_by, params_hash, labels, approver, approvals_needed, status, risk, created_at, tool, session_id)
     values ($1, $2, 'agent_call', $3, 'h', '{pii}', 'admin', 1, 'pending', '{"level": "low", "reasons": []}', now() - interval '3 minutes', 'Write', 'ses_1')`,
    [agents, engine.organizationId, engine.caller('member').userId],
  )
  const found = await told()
  const common = { level: 30, msg: 'this waits longest', organization_id: engine.organizationId }
  expect(found).toEqual([
    { ...common, kind: 'agent_call', approval_id: agents, session_id: 'ses_1', waiting_seconds: expect.any(Number) },
    { ...common, kind: 'step', approval_id: approvalId, run_id: runId, workflow_id: expect.stringMatching(/^wf_/), step_id: 's', waiting_seconds: expect.any(Number) },
  ]) // prettier-ignore
  expect(found.map((line) => Math.floor(Number(line['waiting_seconds']) / 60))).toEqual([3, 90])
})

test('a line comes once, and again when another thing waits longest', async () => {
  await engine.rules(holdRule())
  const first = await held(90)
  const second = await held(30)
  expect((await told()).map((line) => line['approval_id'])).toEqual([first.approvalId])
  expect(await told()).toEqual([])
  await engine.vote(first.approvalId, 'approver', 'reject')
  expect((await told()).map((line) => line['approval_id'])).toEqual([second.approvalId])
})

test('what has just begun to wait is not named', async () => {
  await engine.rules(holdRule())
  await held(0)
  expect(await told()).toEqual([])
})

test('an unknown outcome is named and counted until its run has ended', async () => {
  const op = await unknown()
  expect(await told()).toMatchObject([
    { kind: 'resolution', run_id: op.key.runId, step_id: 's', waiting_seconds: expect.any(Number) },
  ])
  const counted = async (): Promise<string | undefined> =>
    /^countersign_unknown_outcomes\{.*\} (\d+)$/m.exec(await engine.another().metrics.text())?.[1]
  expect(await counted()).toBe('1')
  await engine.context.pool.query('update runs set cancel_requested_at = now() where id = $1', [op.key.runId])
  await finishRun(engine.context, { runId: op.key.runId, status: 'cancelled' })
  tell = newTeller()
  expect(await told()).toEqual([])
  expect(await counted()).toBe('0')
})

test('unknown outcomes of ended runs, which stay for ever, do not hide one of an open run', async () => {
  const { db } = engine.context
  const end = (runId: string) => finishRun(engine.context, { runId, status: 'failed' })
  for (const { id } of await db.selectFrom('runs').select('id').where('finished_at', 'is', null).execute())
    await end(id)
  for (let count = 0; count < 3; count += 1) await end((await unknown()).key.runId)
  const open = (await unknown()).key.runId
  expect((await longestWaits(1).execute(db)).rows).toMatchObject([{ kind: 'resolution', run_id: open }])
  expect((await measureStoredState<{ unknown: number }>(1).execute(db)).rows).toMatchObject([{ unknown: 1 }])
})
