import { setTimeout as delay } from 'node:timers/promises'
import { expect } from '@jest/globals'
import type { CrashHome } from './chaos.ts'
import type { Run } from './client-types.ts'
import { patience } from '../stack/until.ts'

/* Conditions that must hold for a run, and for the whole service, however often processes were killed. */

interface EffectRow {
  step_id: string
  item_index: number
  state: string
  completions: number
}

/**
 * Checks that the run and all its calls completed. The audit log must record each completion once, and the receipt must
 * agree. The sink must have counted exactly `mails` deliveries of the run.
 */
export async function expectFinished(
  home: CrashHome,
  runId: string,
  subject: string,
  mails = 1,
): Promise<void> {
  const run = await home.member.untilRun(runId, 'over', (each) => each.finished_at !== null)
  expect({ run: run.status, reason: run.status_reason, mails: home.sink.count(subject) }).toEqual({
    run: 'completed',
    reason: 'every step has ended',
    mails,
  })
  const calls = await callsOf(home, runId)
  expect(calls.filter(({ state, completions }) => state !== 'completed' || completions !== 1)).toEqual([])
  expect(run.nodes_executed).toBe(calls.length)
  await expectReceipt(home, run)
}

/** Reads every call of the run, with the number of its completions in the audit log. */
export function callsOf(home: CrashHome, runId: string): Promise<EffectRow[]> {
  return home.query<EffectRow>(
    `select e.step_id, e.item_index, e.state,
            (select count(*)::int from audit_events a
             where a.run_id = e.run_id and a.event_type in ('tool_call.completed', 'step.completed')
               and a.canonical::jsonb #>> '{metadata,step_id}' = e.step_id
               and coalesce((a.canonical::jsonb #>> '{metadata,item_index}')::int, -1) = e.item_index) as completions
     from effects e where e.run_id = $1 order by e.step_id, e.item_index`,
    [runId],
  )
}

/**
 * Checks the receipt of a run. A call may have decisions of several attempts, but at most one of them has an outcome.
 * Each outcome must be `completed`. If the run had approvals, the decision with the mail's outcome must have one vote
 * to approve. Exactly one approval of a step must be used.
 */
async function expectReceipt(home: CrashHome, run: Run): Promise<void> {
  const { decisions } = await home.member.receipt(run.id)
  const places = decisions.map((each) => each.seq)
  expect([...new Set(places)].sort((a, b) => a - b)).toEqual(places)
  const outcomes = decisions.filter((each) => each.executed_at !== null)
  const calls = outcomes.map((each) => `${each.step_id}#${each.item_index}`)
  expect([...new Set(calls)]).toEqual(calls)
  expect(outcomes.map((each) => each.outcome)).toEqual(outcomes.map(() => 'completed'))
  const mails = outcomes.filter((each) => each.tool === 'mail_send')
  const held = run.steps.some((step) => step.kind === 'tool' && step.approval_ids.length > 0)
  expect(mails.map((each) => each.approval?.votes.map((vote) => vote.decision))).toEqual(
    mails.map(() => (held ? ['approve'] : undefined)),
  )
  const used = await home.query<{ n: number }>(
    `select count(*)::int as n from approvals where run_id = $1 and kind = 'step' and used_at is not null`,
    [run.id],
  )
  expect(used).toEqual([{ n: held ? 1 : 0 }])
}

/** Checks that the outbox gets empty, that no run is open, and that the chain verifies. */
export async function expectQuiet(home: CrashHome): Promise<void> {
  const open = await home.query('select id, status, status_reason from runs where finished_at is null')
  expect(open).toEqual([])
  const deadline = Date.now() + patience
  for (;;) {
    const rows = await home.query(
      `select id, message, failures, last_error from lanes where kind = 'temporal'`,
    )
    if (rows.length === 0) break
    if (Date.now() > deadline) expect(rows).toEqual([])
    await delay(100)
  }
  expect(await home.admin.verify()).toMatchObject({ valid: true, first_mismatch: null })
}
