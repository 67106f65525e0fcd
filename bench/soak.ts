import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { recordedProcesses } from '../src/stack/guard.ts'
import { readEvents } from '../test/support/chaos-events.ts'
import { Api } from '../test/support/client.ts'
import type { Approval, Verified } from '../test/support/client-types.ts'
import { stackHome, startStack } from '../test/support/start-stack.ts'
import { withClient } from './support/postgres.ts'
import { machine, say } from './support/report.ts'

/**
 * `npm run bench soak [minutes]`: mixed load on a whole stack, by default for 20 minutes. What must stay flat is
 * printed as it was after a quarter of the time and at the end: resident memory of API and worker, connections,
 * and the tables that are pruned. Data of runs is kept for five minutes instead of 90 days.
 */
export async function run(args: readonly string[]): Promise<void> {
  const minutes = Number(args[0] ?? 20)
  if (!(minutes > 0)) throw new Error(`\`${args[0]}\` is not a number of minutes`)
  say(`soak: ${minutes} minutes of mixed load; ${machine()}`)
  const home = stackHome()
  const stack = await startStack({
    dataDir: home.dataDir,
    env: { LOG_LEVEL: 'error', RETENTION_DAYS: String(5 / 1_440) },
  })
  try {
    await soak(home.dataDir, minutes)
  } finally {
    await stack.stop()
    await home.remove()
  }
}

const definition = {
  inputs: { subject: { type: 'string' }, keys: { type: 'array' } },
  steps: [
    { id: 'read', tool: 'file_read', params: { path: 'reports/q3-summary.md' } },
    { id: 'note', tool: 'memory_set', params: { key: '{{item}}', value: 'v' }, for_each: '{{input.keys}}' },
    {
      id: 'send',
      tool: 'mail_send',
      depends_on: ['note'],
      params: { to: 'a@example.com', subject: '{{input.subject}}', text: '{{read.output.text}}' },
    },
  ],
}

async function soak(dataDir: string, minutes: number): Promise<void> {
  const people = (name: ConstructorParameters<typeof Api>[1]): Api => new Api(dataDir, name)
  const [owner, admin, approver, member] = [people('owner'), people('admin'), people('approver'), people('member')] // prettier-ignore
  await owner.settings({ approvals_enabled: true })
  await admin.createRule({ name: 'mail is looked at', verdict: 'require_approval', tools: ['mail_send'] })
  const workflowId = await member.createWorkflow('Soak', definition)
  const counts = { runs: 0, votes: 0, streams: 0, rules: 0, reads: 0, verified: 0, failures: 0 }
  let stopped = false
  const loop = async (pause: number, work: () => Promise<void>): Promise<void> => {
    while (!stopped) {
      await work().catch((error: Error) => {
        counts.failures += 1
        say(`  ${error.message.slice(0, 300)}`)
      })
      await delay(pause)
    }
  }
  const startOne = async (): Promise<void> => {
    const id = await member.execute(workflowId, { subject: `s ${counts.runs}`, keys: ['a', 'b', 'c'] })
    counts.runs += 1
    if (counts.runs % 10 > 0) return
    await readEvents(member, id, {})
    counts.streams += 1
  }
  const decideAll = async (): Promise<void> => {
    const { data } = await approver.good<{ data: Approval[] }>('GET', '/approvals?status=pending&limit=200')
    for (const { id } of data) {
      await approver.decide(id, counts.votes % 7 === 0 ? 'reject' : 'approve')
      counts.votes += 1
    }
  }
  const changeRules = async (): Promise<void> => {
    const rule = { name: `shadow ${counts.rules}`, verdict: 'deny', tools: ['memory_*'], status: 'shadow' }
    await admin.deleteRule((await admin.createRule(rule)).id)
    counts.rules += 1
  }
  const readAround = async (): Promise<void> => {
    for (const path of ['/runs?limit=50', '/workflows', '/tools', '/me', '/approvals?limit=50'])
      await member.good('GET', path).catch(() => admin.good('GET', path))
    counts.reads += 1
  }
  const verify = async (): Promise<void> => {
    const answer: Verified = await admin.verify()
    if (!answer.valid) throw new Error(`the chain does not verify: ${JSON.stringify(answer)}`)
    counts.verified += 1
  }
  const loops = [
    loop(250, startOne),
    loop(250, startOne),
    loop(500, decideAll),
    loop(5_000, changeRules),
    loop(1_000, readAround),
    loop(60_000, verify),
  ]
  const samples: Sample[] = []
  const every = Math.max(1_000, (minutes * 60_000) / 80)
  const end = Date.now() + minutes * 60_000
  while (Date.now() < end) {
    samples.push(await sample(dataDir, owner.bootstrap.database_admin_url))
    await delay(every)
  }
  stopped = true
  await Promise.all(loops)
  say(`  ${JSON.stringify(counts)}`)
  report(samples)
}

type Sample = Readonly<Record<string, number>>

async function sample(dataDir: string, url: string): Promise<Sample> {
  const memory = recordedProcesses(dataDir)
    .filter(({ role }) => role === 'api' || role === 'worker')
    .map(({ role, pid }) => [`${role} MiB`, residentMiB(pid)] as const)
  const { rows } = await withClient(url, (client) =>
    client.query<Record<string, string>>(`
      select (select count(*) from pg_stat_activity where datname = current_database() and usename <> 'postgres') as connections,
             (select count(*) from runs) as runs,
             (select count(*) from runs where data_removed_at is null) as "runs with data",
             (select count(*) from run_events) as "run events",
             (select count(*) from idempotency_keys) as "idempotency keys",
             (select count(*) from outbox) as outbox,
             (select count(*) from process_heartbeats) as heartbeats`),
  )
  const counted = Object.entries(rows[0] ?? {}).map(([name, value]) => [name, Number(value)] as const)
  return Object.fromEntries([...memory, ...counted])
}

function residentMiB(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
}

/** Means of the second quarter against the last: what grows without end shows, what warms up does not. */
function report(samples: readonly Sample[]): void {
  const quarter = Math.max(1, Math.floor(samples.length / 4))
  const mean = (part: readonly Sample[], name: string): number =>
    part.reduce((sum, each) => sum + (each[name] ?? 0), 0) / part.length
  for (const name of Object.keys(samples.at(-1) ?? {})) {
    const early = mean(samples.slice(quarter, 2 * quarter), name)
    const late = mean(samples.slice(-quarter), name)
    say(`  ${name}: ${early.toFixed(0)} in the second quarter, ${late.toFixed(0)} in the last`)
  }
}
