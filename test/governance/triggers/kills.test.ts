import { fork, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import { acceptRun } from '../../../src/governance/runs/start/accept.ts'
import { outputBinding } from '../../../src/governance/sealing/bindings.ts'
import { callerOf } from '../../../src/governance/triggers/firings.ts'
import { sealKept } from '../../../src/governance/triggers/trigger-view.ts'
import { getTool } from '../../../src/tools/index.ts'
import type { ToolDeclaration } from '../../../src/tools/kit/tool.ts'
import { until } from '../../stack/until.ts'
import { byDepth } from '../../support/depth.ts'
import { endLeases } from '../lanes/leases.ts'
import { opOf, outcomeOf } from '../runs/engine-fixture.ts'
import { everyHour, startTriggerHome, type TriggerHome } from './fixture.ts'

/*
 * Two processes fire schedules and take what polls have read, and each is killed again and again at random moments. Every
 * due time fires once, and every item starts one run.
 */

const schedules = byDepth(200, 1_000)
const polls = byDepth(20, 100)
const itemsOfPoll = 20
const kills = byDepth(6, 40)
const longestLife = 400

let home: TriggerHome
let environment: NodeJS.ProcessEnv
beforeAll(async () => {
  environment = {
    APP_ENV: 'test',
    LOG_LEVEL: 'silent',
    SMTP_URL: 'smtp://127.0.0.1:9',
    DATA_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
  }
  home = await startTriggerHome(environment)
  environment['DATABASE_URL'] = home.context.config.database.url
  await home.stopRunner()
})
afterAll(() => home?.close())

interface Firing {
  readonly child: ChildProcess
  readonly id: string
}

async function begin(): Promise<Firing> {
  const env = { ...process.env, ...environment }
  const child = fork(new URL('trigger-process.ts', import.meta.url), { env, execArgv: [], stdio: 'inherit' })
  const [id] = await once(child, 'message')
  return { child, id: id as string }
}

/** Its leases end at once. Otherwise each kill would cost ten seconds. */
async function kill({ child, id }: Firing): Promise<void> {
  child.kill('SIGKILL')
  await once(child, 'exit')
  await endLeases(home.context.pool, id)
}

/** Copies of one trigger in place of all others. */
async function plant(usual: string, count: number, over: () => object): Promise<void> {
  const { context } = home
  const row = await context.db
    .selectFrom('triggers')
    .selectAll()
    .where('id', '=', usual)
    .executeTakeFirstOrThrow()
  const quota = { workflow_runs_per_hour: 600_000, queued_executions: 1_000_000 }
  await context.pool.query('update organizations set quota_overrides = $1', [quota])
  await context.pool.query('delete from triggers')
  await context.pool.query(`delete from lanes where kind = 'trigger'`)
  for (let planted = 0; planted < count; planted += 100) {
    const copies = Array.from({ length: Math.min(100, count - planted) }, async () => {
      const id = newId('trigger')
      const sealed = await sealKept(context.sealer, { ...row, id }, { inputs: {}, secret: null })
      return { ...row, ...sealed, ...over(), id, settings: JSON.stringify(row.settings) }
    })
    await context.db
      .insertInto('triggers')
      .values(await Promise.all(copies))
      .execute()
  }
}

/** A poll whose call has ended, but whose output nobody has taken. Returns its id and that of its run. */
async function readPoll(): Promise<{ id: string; runId: string }> {
  const { context } = home
  const { id } = await home.poll({ every_seconds: 86_400 })
  const { rows } = await context.pool.query('select * from triggers where id = $1', [id])
  const [row] = rows
  const { runId } = await acceptRun(context, {
    caller: await callerOf(context.db, row),
    workflowId: row.poll_workflow_id,
    inputs: {},
    firing: { pollOf: id, earlierRun: async () => null, keep: async () => {} },
  })
  const tool = getTool('memory_get') as ToolDeclaration
  const op = opOf(runId, { key: { runId, stepId: 'read', itemIndex: -1 }, tool, params: { key: 'k' } })
  const value = Array.from({ length: itemsOfPoll }, (_, n) => ({ id: n }))
  const text = JSON.stringify({ key: 'k', value })
  const output = { sealed: await context.sealer.seal(outputBinding(op.key), text), bytes: text.length }
  const attempt = await home.go(op)
  const call = {
    source: 'workflows',
    tool: tool.name,
    sideEffect: 'read',
    params: op.params,
    labels: [],
  } as const
  await home.record(outcomeOf(op, attempt, { state: 'completed', output, labels: [], call }))
  await home.finish(runId, 'completed')
  return { id, runId }
}

async function killAgainAndAgain(running: Firing[]): Promise<void> {
  for (let count = 0; count < kills; count += 1) {
    await delay(Math.random() * longestLife)
    await kill(running[count % 2] as Firing)
    running[count % 2] = await begin()
  }
}

async function untilStarted(all: number): Promise<void> {
  for (let part = all / 20; part <= all; part += all / 20)
    await until(`${part} have fired`, async () => {
      const counted = `select count(*)::int as started from trigger_firings where state = 'started'`
      return (await home.context.pool.query(counted)).rows[0].started >= part
    })
}

test(`${schedules} schedules fire each due time once, although two processes are killed ${kills} times`, async () => {
  const usual = await home.schedule({ ...everyHour, catch_up: 'all', overlap: 'allow' }, { inputs: {} })
  // Each is due twice: about an hour ago, and a moment ago.
  await plant(usual, schedules, () => ({
    next_due_at: new Date(Date.now() - 3_600_000 - Math.random() * 50_000),
  }))
  const { pool } = home.context
  const running = [await begin(), await begin()]
  await killAgainAndAgain(running)
  const all = 2 * schedules
  await untilStarted(all)
  for (const each of running) await kill(each)
  const { rows } = await pool.query(`
    select (select count(*)::int from trigger_firings) as firings,
           (select count(distinct (trigger_id, due_at))::int from trigger_firings) as due_times,
           (select count(distinct run_id)::int from trigger_firings where state = 'started') as runs,
           (select count(*)::int from runs) as all_runs,
           (select count(*)::int from audit_events where canonical::jsonb->>'event_type' = 'workflow.execute') as audited`)
  expect(rows[0]).toEqual({ firings: all, due_times: all, runs: all, all_runs: all, audited: all })
})

test(`${polls} polls start each of their ${itemsOfPoll} items once, although two processes are killed ${kills} times`, async () => {
  const { pool } = home.context
  await pool.query('delete from triggers')
  await pool.query(`update runs set status = 'completed', finished_at = now(), slot = null`)
  const { id, runId } = await readPoll()
  const { rows: before } = await pool.query('select count(*)::int as runs from runs')
  const tomorrow = new Date(Date.now() + 86_400_000)
  await plant(id, polls, () => ({ poll_run_id: runId, next_due_at: tomorrow }))
  // What wakes the lanes of polls whose runs have ended.
  await pool.query(
    `insert into lanes (kind, id, organization_id) select 'trigger', id, organization_id from triggers`,
  )
  const running = [await begin(), await begin()]
  await killAgainAndAgain(running)
  const all = polls * itemsOfPoll
  await untilStarted(all)
  for (const each of running) await kill(each)
  const { rows } = await pool.query(`
    select (select count(*)::int from trigger_firings) as firings,
           (select count(distinct (trigger_id, delivery_id))::int from trigger_firings) as items,
           (select count(*)::int from trigger_items) as remembered,
           (select count(distinct run_id)::int from trigger_firings where state = 'started') as runs,
           (select count(*)::int from runs) as all_runs`)
  expect(rows[0]).toEqual({
    ...{ firings: all, items: all, remembered: all, runs: all },
    all_runs: before[0].runs + all,
  })
})
