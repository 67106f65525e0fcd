import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { randomInt } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { crashHome, type CrashHome } from '../support/chaos.ts'
import { seededRandom, startPeople } from '../support/chaos-people.ts'
import type { Run } from '../support/client-types.ts'
import { byDepth } from '../support/depth.ts'
import { patience } from '../stack/until.ts'

/*
 * Runs fail after their mail, and one request makes all of them again, while worker, API, Temporal and PostgreSQL are
 * killed with kill -9 at random moments. No mail of an old or a new run goes out twice.
 *
 *   RERUN_KILLS=200 npm test -- test/e2e/rerun-kills   waves until so many kills
 *   CHAOS_SEED=12345 npm test -- test/e2e/rerun-kills  the kills of an earlier run
 */

const kills = Number(process.env['RERUN_KILLS'] ?? byDepth(6, 30))
const seed = Number(process.env['CHAOS_SEED'] ?? randomInt(2 ** 31))
const random = seededRandom(seed)
const runsOfWave = byDepth(8, 20)
const longestKill = 60_000

const workflow = (path: string) => ({
  inputs: { subject: { type: 'string', required: true } },
  steps: [
    {
      id: 'send',
      tool: 'mail_send',
      params: { to: 'ana@acme.test', subject: '{{input.subject}}', text: 't' },
    },
    { id: 'read', tool: 'file_read', depends_on: ['send'], params: { path } },
  ],
})

interface Rerun {
  readonly id: string
  readonly status: string
  readonly counts: Readonly<Record<'total' | 'started' | 'completed' | 'open' | 'held' | 'failed', number>>
}

let home: CrashHome
let organization: string
beforeAll(async () => {
  home = await crashHome({ mailLatency: 100 })
  organization = `/organizations/${home.member.bootstrap.organization_id}`
  await home.owner.settings({ approvals_enabled: true })
})
afterAll(async () => {
  await home?.close()
})

let killed = 0
const parts = ['worker', 'api', 'temporal', 'postgres'] as const
const killedAt = new Map<string, number>()
/** Milliseconds. The supervisor gives up a part that dies six times in a row right after its start. */
const rest = 10_000
let isApiStarting = false

const isUp = (): Promise<boolean> =>
  fetch(`${home.stack.baseUrl}/health`).then(
    ({ ok }) => ok,
    () => false,
  )

/** Kills parts until `work` has ended. */
async function underKills<T>(work: () => Promise<T>): Promise<T> {
  let isOver = false
  const working = work().finally(() => (isOver = true))
  working.catch(() => undefined)
  while (!isOver) {
    await delay(500 + random() * 2_500)
    const rested = parts.filter((each) => performance.now() - (killedAt.get(each) ?? -Infinity) > rest)
    const part = rested[Math.floor(random() * rested.length)]
    if (part === undefined) continue
    // On a slow machine an API would never answer if it, or what it needs to start, were killed again before it is up.
    if (part === 'api' || (isApiStarting && part !== 'worker')) {
      isApiStarting = !(await isUp())
      if (isApiStarting) continue
    }
    if (part === 'api') isApiStarting = true
    killedAt.set(part, performance.now())
    const done = await home.stack.kill9(part).then(
      () => true,
      // The part may still be down because of the previous kill.
      () => false,
    )
    if (done) killed += 1
  }
  return working
}

async function until<T>(read: () => Promise<T>, holds: (value: T) => boolean): Promise<T> {
  const deadline = Date.now() + 2 * patience
  for (;;) {
    const value = await read()
    if (holds(value)) return value
    if (Date.now() > deadline) throw new Error(`it never came: ${JSON.stringify(value)}`)
    await delay(200)
  }
}

const runOf = (id: string) => home.member.good<Run>('GET', `/runs/${id}`)
const ended = (id: string) =>
  until(
    () => runOf(id),
    ({ finished_at: at }) => at !== null,
  )

interface Made {
  readonly run_id: string
  readonly new_run_id: string
}

async function again(body: object, total: number): Promise<readonly Made[]> {
  const { id } = await home.member.good<Rerun>('POST', '/runs/rerun', body)
  const rerun = await until(
    () => home.member.good<Rerun>('GET', `${organization}/reruns/${id}`),
    ({ status, counts }) => status === 'ended' && counts.open + counts.held === 0,
  )
  expect(rerun.counts).toMatchObject({ total, started: total, completed: total })
  const { data } = await home.member.good<{ data: Made[] }>(
    'GET',
    `${organization}/reruns/${id}/runs?limit=200`,
  )
  return data
}

async function oneWave(wave: number): Promise<void> {
  const subjects = Array.from({ length: runsOfWave }, (_, n) => `wave ${wave}.${n}`)
  const workflowId = await home.member.createWorkflow(`Wave ${wave}`, workflow('reports/none.md'))
  const people = startPeople(home, random)
  try {
    const runs = await underKills(async () => {
      const started = await Promise.all(
        subjects.map((subject) =>
          home.member.execute(workflowId, { subject }, { key: subject.replaceAll(' ', '-') }),
        ),
      )
      for (const id of started) expect((await ended(id)).status).toBe('failed')
      return started
    })
    const mails = () => subjects.map((subject) => home.sink.count(subject))
    expect(mails()).toEqual(subjects.map(() => 1))
    await home.member.good('PUT', `/workflows/${workflowId}`, {
      definition: workflow('reports/q3-summary.md'),
    })
    const made = await underKills(() =>
      again({ filter: { workflow_id: workflowId, status: 'failed' }, version: 'latest' }, runs.length),
    )
    // The mail of a completed run is a repeat then, and is left out.
    const ids = made.map(({ new_run_id: id }) => id)
    await underKills(() => again({ filter: { run_ids: ids }, from: 'start', on_repeat: 'skip' }, ids.length))
    expect(mails()).toEqual(subjects.map(() => 1))
    for (const { run_id: from, new_run_id: to } of made)
      expect((await runOf(to)).steps[0]).toMatchObject({ reused_from: from })
  } catch (error) {
    throw new Error(
      `wave ${wave}, CHAOS_SEED=${seed}: ${String(error)}; ${home.stack.output().slice(-3_000)}`,
      {
        cause: error,
      },
    )
  } finally {
    people.hurry()
    await people.stop()
  }
  expect(people.surprises).toEqual([])
}

test(
  `no mail goes out twice (CHAOS_SEED=${seed})`,
  async () => {
    for (let wave = 1; killed < kills; wave += 1) await oneWave(wave)
    process.stderr.write(`${killed} kills\n`)
  },
  600_000 + kills * longestKill,
)
