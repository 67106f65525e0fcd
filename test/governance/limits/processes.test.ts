import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { planLimits } from '../../../src/contract/plan-limits.ts'
import { changeQuota } from '../../../src/governance/limits/quota.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { asAdmin } from '../../support/postgres.ts'
import { until } from '../../stack/until.ts'
import { runOf, startEngine, type Engine } from '../runs/engine-fixture.ts'
import { startHammer, type Hammer } from './hammer.ts'

let engine: Engine
let workflowId: string
beforeAll(async () => {
  engine = await startEngine()
  workflowId = (await runOf(engine.context, await engine.run())).workflow_id
})
afterAll(() => engine?.close())

const open = () =>
  engine.context.db.selectFrom('runs').select(['id', 'slot']).where('finished_at', 'is', null).execute()

/** Ends the runs that have a slot, until no run is left. Slots of a killed process become free in the same way. */
async function endAll(): Promise<void> {
  for (let runs = await open(); runs.length > 0; runs = await open()) {
    const holders = runs.filter(({ slot }) => slot === 'taken')
    // No run waits while a slot is free.
    expect(holders.length).toBeGreaterThan(0)
    for (const { id } of holders) await finishRun(engine.context, { runId: id, status: 'failed' })
  }
}

test('racing processes, one of them killed, never exceed the slots or the runs per hour', async () => {
  await endAll()
  await engine.context.pool.query(`update runs set created_at = created_at - interval '2 hours'`)
  await changeQuota(engine.context, engine.caller('owner'), {
    concurrent_executions: 3,
    workflow_runs_per_hour: 40,
  })
  // The trigger refuses every commit above the limit, so no violation can be missed between two checks.
  await asAdmin(engine.adminUrl, async (client) => {
    await client.query(`
      create function slots_hold() returns trigger language plpgsql as $$ begin
        if (select count(*) from runs where slot = 'taken') > 3 then raise exception 'too many slots'; end if;
        return null;
      end $$;
      create constraint trigger slots_hold after insert or update on runs deferrable initially deferred
        for each row execute function slots_hold()`)
  })
  const url = engine.context.config.database.url
  const hammer = () => startHammer([url, 'runs', JSON.stringify(engine.caller('member')), workflowId])
  const [killed, other] = [hammer(), hammer()] as [Hammer, Hammer]
  await until('the first was answered', () => Promise.resolve(killed.lines.length > 5))
  killed.child.kill('SIGKILL')
  await killed.ended
  const holding = (await open()).map(({ id }) => id)
  expect(holding.length).toBeGreaterThan(0)
  // The runs of the living process wait behind the runs of the dead one. A worker would end the dead process's runs, so
  // the test ends them.
  const ending = until('the other has ended', async () => {
    const dead = (await open()).filter(({ id, slot }) => slot === 'taken' && !other.lines.includes(id))
    for (const { id } of dead) await finishRun(engine.context, { runId: id, status: 'failed' })
    return other.child.exitCode !== null
  })
  expect(await other.ended).toBe(0)
  await ending
  await endAll()
  const { rows } = await engine.context.pool.query<{ count: number }>(
    `select count(*)::int as count from runs where created_at > now() - interval '1 hour'`,
  )
  expect(rows[0]?.count).toBeLessThanOrEqual(40)
  const given = other.lines.filter((line) => line !== 'refused').length
  expect(given + killed.lines.filter((line) => line !== 'refused').length).toBeLessThanOrEqual(40)
  expect(other.lines).toHaveLength(30)
})

test('request blocks of processes, one of them killed, never exceed the limit together', async () => {
  const limits = { ...planLimits.free, requests_per_minute: 300 }
  const hammer = () =>
    startHammer([
      engine.context.config.database.url,
      'requests',
      engine.organizationId,
      JSON.stringify(limits),
    ])
  const hammers = [hammer(), hammer(), hammer()] as [Hammer, Hammer, Hammer]
  // The process that starts first may leave no requests for the others, so kill whichever process is ahead.
  const ahead = () => hammers.find(({ lines }) => lines.length > 10)
  await until('one has some', () => Promise.resolve(ahead() !== undefined))
  ahead()?.child.kill('SIGKILL')
  await Promise.all(hammers.map(({ ended }) => ended))
  const perWindow = new Map<string, number>()
  for (const line of hammers.flatMap(({ lines }) => lines))
    perWindow.set(line, (perWindow.get(line) ?? 0) + 1)
  for (const count of perWindow.values()) expect(count).toBeLessThanOrEqual(300)
  // The only missing requests are unused ones of the dead process: at most one block.
  expect(Math.max(...perWindow.values())).toBeGreaterThan(200)
  // The next window has all requests again.
  await engine.context.pool.query(
    `update request_windows set started_at = started_at - interval '1 minute' where bucket = 'requests_per_minute'`,
  )
  const next = await engine.context.rates.take(engine.organizationId, limits, 'requests')
  expect(next).toMatchObject({ allowed: true, remaining: 299 })
})
