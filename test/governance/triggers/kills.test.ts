import { fork, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import { sealKept } from '../../../src/governance/triggers/trigger-view.ts'
import { until } from '../../stack/until.ts'
import { byDepth } from '../../support/depth.ts'
import { everyHour, startTriggerHome, type TriggerHome } from './fixture.ts'

/* Two processes fire schedules, and each is killed again and again at random moments. Every due time fires once. */

const schedules = byDepth(200, 1_000)
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
  await home.context.pool.query('update lanes set leased_until = now() where turn like $1', [`${id}/%`])
}

/** Copies of one schedule, each due twice: about an hour ago, and a moment ago. */
async function plant(): Promise<void> {
  const { context } = home
  const usual = await home.schedule({ ...everyHour, catch_up: 'all', overlap: 'allow' }, { inputs: {} })
  const row = await context.db
    .selectFrom('triggers')
    .selectAll()
    .where('id', '=', usual)
    .executeTakeFirstOrThrow()
  const quota = { workflow_runs_per_hour: 600_000, queued_executions: 1_000_000 }
  await context.pool.query('update organizations set quota_overrides = $1', [quota])
  await context.pool.query('delete from triggers')
  await context.pool.query(`delete from lanes where kind = 'trigger'`)
  for (let count = 0; count < schedules; count += 100) {
    const copies = Array.from({ length: 100 }, async () => {
      const id = newId('trigger')
      const ago = 3_600_000 + Math.random() * 50_000
      const next_due_at = new Date(Date.now() - ago)
      const sealed = await sealKept(context.sealer, { ...row, id }, { inputs: {}, secret: null })
      return { ...row, ...sealed, id, next_due_at, settings: JSON.stringify(row.settings) }
    })
    await context.db
      .insertInto('triggers')
      .values(await Promise.all(copies))
      .execute()
  }
}

test(`${schedules} schedules fire each due time once, although two processes are killed ${kills} times`, async () => {
  await plant()
  const { pool } = home.context
  const running = [await begin(), await begin()]
  for (let count = 0; count < kills; count += 1) {
    await delay(Math.random() * longestLife)
    await kill(running[count % 2] as Firing)
    running[count % 2] = await begin()
  }
  const all = 2 * schedules
  for (let part = all / 20; part <= all; part += all / 20)
    await until(`${part} have fired`, async () => {
      const counted = `select count(*)::int as started from trigger_firings where state = 'started'`
      return (await pool.query(counted)).rows[0].started >= part
    })
  for (const each of running) await kill(each)
  const { rows } = await pool.query(`
    select (select count(*)::int from trigger_firings) as firings,
           (select count(distinct (trigger_id, due_at))::int from trigger_firings) as due_times,
           (select count(distinct run_id)::int from trigger_firings where state = 'started') as runs,
           (select count(*)::int from runs) as all_runs,
           (select count(*)::int from audit_events where canonical::jsonb->>'event_type' = 'workflow.execute') as audited`)
  expect(rows[0]).toEqual({ firings: all, due_times: all, runs: all, all_runs: all, audited: all })
})
