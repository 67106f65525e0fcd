import { fork, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { loadavg } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { newId } from '../src/contract/ids.ts'
import { workflowDefinition } from '../src/contract/definition.ts'
import type { Context } from '../src/governance/context.ts'
import { createServiceAccount } from '../src/governance/people/service-accounts.ts'
import { sealKept } from '../src/governance/triggers/trigger-view.ts'
import { createTrigger } from '../src/governance/triggers/triggers.ts'
import { createWorkflow } from '../src/governance/workflows/workflows.ts'
import { createContext } from '../src/programs/create-context.ts'
import { readConfig } from '../src/shared/config.ts'
import { newCaller } from './support/caller.ts'
import { withPostgres } from './support/postgres.ts'
import { count, machine, say } from './support/report.ts'

const schedules = 10_000
/** Due times of one schedule are so far apart, so 100 a second are due. */
const everySeconds = 100
const usualSeconds = 120

/**
 * Two processes fire 10,000 schedules of one organization, of which 100 are due in each second, and each process is killed
 * by SIGKILL. There is no Temporal: each second, the runs that have been accepted are ended by a statement.
 */
export async function run([given]: readonly string[]): Promise<void> {
  const seconds = Number(given ?? usualSeconds)
  say(`triggers: ${count(schedules)} schedules, two processes; ${machine()}`)
  await withPostgres(async ({ appUrl }) => {
    const environment = {
      ...{ APP_ENV: 'test', LOG_LEVEL: 'silent', DATABASE_URL: appUrl },
      DATA_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    }
    const context = createContext(readConfig(environment), 'worker')
    try {
      await plant(context)
      await fire(context, environment, seconds)
      await report(context)
    } finally {
      await context.close()
    }
  })
}

/** Copies of one schedule, whose due times are spread. */
async function plant(context: Context): Promise<void> {
  const { db, pool } = context
  const caller = await newCaller(context)
  const definition = workflowDefinition.parse({
    inputs: { at: { type: 'string' } },
    steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' } }],
  })
  const { id: workflowId } = await createWorkflow(context, caller, { name: 'w', description: '', definition })
  const account = await createServiceAccount(context, caller, { name: 'bench', role: 'member' })
  const { id } = await createTrigger(context, caller, workflowId, {
    ...{ name: 't', service_account: account.id, version: 'latest', untrusted: true },
    inputs: { at: '{{ due_at }}' },
    schedule: {
      ...{ cron: null, every_seconds: everySeconds, time_zone: 'UTC' },
      ...{ catch_up: 'all', overlap: 'allow' },
    },
  })
  const row = await db.selectFrom('triggers').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  const quota = {
    workflow_runs_per_hour: 600_000,
    queued_executions: 1_000_000,
    concurrent_executions: 25_000,
  }
  await pool.query(`update organizations set plan = 'enterprise', quota_overrides = $1`, [quota])
  await pool.query('delete from triggers')
  await pool.query(`delete from lanes where kind = 'trigger'`)
  const from = Date.now() + 10_000
  for (let planted = 0; planted < schedules; planted += 500) {
    const copies = Array.from({ length: 500 }, async (_, place) => {
      const own = newId('trigger')
      const next_due_at = new Date(from + ((planted + place) / schedules) * everySeconds * 1_000)
      const sealed = await sealKept(
        context.sealer,
        { ...row, id: own },
        { inputs: { at: '{{ due_at }}' }, secret: null },
      )
      return { ...row, ...sealed, id: own, next_due_at, settings: JSON.stringify(row.settings) }
    })
    await db
      .insertInto('triggers')
      .values(await Promise.all(copies))
      .execute()
  }
}

async function begin(environment: NodeJS.ProcessEnv): Promise<ChildProcess> {
  const program = new URL('../test/governance/triggers/trigger-process.ts', import.meta.url)
  const child = fork(program, { env: { ...process.env, ...environment }, execArgv: [], stdio: 'inherit' })
  await once(child, 'message')
  return child
}

/** Kills each process once, after a third and two thirds of the time. Then it waits for what is left. */
async function fire({ pool }: Context, environment: NodeJS.ProcessEnv, seconds: number): Promise<void> {
  const running = [await begin(environment), await begin(environment)]
  for (let second = 1; second <= seconds + 20; second += 1) {
    await delay(1_000)
    await pool.query(
      `update runs set status = 'completed', finished_at = clock_timestamp(), slot = null where finished_at is null`,
    )
    if (second > seconds || second % Math.floor(seconds / 3) !== 0 || second / seconds > 0.9) continue
    const killed = running.shift()
    killed?.kill('SIGKILL')
    running.push(await begin(environment))
  }
  for (const each of running) each.kill('SIGKILL')
}

async function report({ pool }: Context): Promise<void> {
  const { rows } = await pool.query<Record<string, number>>(
    `with f as (select *, extract(epoch from created_at - due_at) as late from trigger_firings where state = 'started')
     select (select count(*)::int from f) as started,
            (select count(distinct (trigger_id, due_at))::int from f) as due_times,
            (select count(distinct run_id)::int from f) as runs, (select count(*)::int from runs) as all_runs,
            (select count(*)::int from triggers where next_due_at < clock_timestamp()) as behind,
            extract(epoch from (select max(created_at) - min(created_at) from f))::float8 as seconds,
            (select percentile_cont(0.5) within group (order by late) from f)::float8 as p50,
            (select percentile_cont(0.99) within group (order by late) from f)::float8 as p99,
            (select max(late) from f)::float8 as most`,
  )
  const found = rows[0] ?? {}
  const isOnce = ['due_times', 'runs', 'all_runs'].every((name) => found[name] === found['started'])
  const rate = (found['started'] ?? 0) / (found['seconds'] ?? 1)
  const late = ['p50', 'p99', 'most'].map((name) => `${name} ${found[name]?.toFixed(1)} s`).join(', ')
  say(
    `  ${count(found['started'] ?? 0)} due times in ${found['seconds']?.toFixed(0)} s, ${rate.toFixed(0)} a second, each once: ${isOnce ? 'holds' : 'MISSED'}`,
  )
  say(`  late by ${late}; ${count(found['behind'] ?? 0)} schedules are still behind`)
  say(`  load of the machine: ${loadavg()[0]?.toFixed(1)}`)
}
