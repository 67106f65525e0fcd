import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { randomInt } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { crashHome, govern, type CrashHome } from '../support/chaos.ts'
import { seededRandom, startPeople } from '../support/chaos-people.ts'
import { byDepth } from '../support/depth.ts'
import { expectFinished, expectQuiet } from '../support/chaos-checks.ts'

/*
 * With runs in flight, some of them held, worker, API, Temporal and PostgreSQL are killed with kill -9, one
 * after another and all at once, at random moments. One wave starts all runs. It then kills every part once
 * and all parts together, in `npm run test:deep` twice, while an approver decides and resolves. Then every run must have reached its right end.
 *
 *   npm test -- test/e2e/chaos                      one small wave
 *   CHAOS_MINUTES=60 npm test -- test/e2e/chaos     waves for an hour
 *   CHAOS_SEED=12345 npm test -- test/e2e/chaos     the kills of an earlier run, in its order and at its intervals
 *   CHAOS_QUICK=1 npm test -- test/e2e/chaos        runs of quick calls only, which are local activities
 */

const minutes = Number(process.env['CHAOS_MINUTES'] ?? byDepth(0, 3))
const onlyQuick = process.env['CHAOS_QUICK'] !== undefined
const seed = Number(process.env['CHAOS_SEED'] ?? randomInt(2 ** 31))
/** Kills and people use separate random numbers, so that they do not affect each other. */
const random = seededRandom(seed)
const randomOfPeople = seededRandom(seed + 1)
const runsOfWave = byDepth(12, 40)
const rounds = byDepth(1, 2)
const longestWave = 600_000

/** Reads and writes values one after another. */
const quickWorkflow = {
  inputs: { subject: { type: 'string', required: true }, keys: { type: 'array', required: true } },
  steps: Array.from({ length: 12 }, (_, n) => ({
    id: `s${n}`,
    ...(n % 2 === 0
      ? { tool: 'memory_set', params: { key: '{{input.subject}}', value: n } }
      : { tool: 'memory_get', params: { key: '{{input.subject}}' } }),
    ...(n === 0 ? {} : { depends_on: [`s${n - 1}`] }),
  })),
}

let home: CrashHome
let workflowId: string

beforeAll(async () => {
  home = await crashHome({ mailLatency: 150 })
  workflowId = await govern(home, {
    rule: { params: [{ param: 'subject', operator: 'startswith', value: 'held' }] },
    ...(onlyQuick ? { definition: quickWorkflow } : {}),
  })
})
afterAll(async () => {
  await home.close()
})

test(
  `every run reaches its right end and every call takes effect once (CHAOS_SEED=${seed})`,
  async () => {
    const until = Date.now() + minutes * 60_000
    let wave = 0
    do await oneWave(++wave)
    while (Date.now() < until)
  },
  minutes * 60_000 + longestWave,
)

async function oneWave(wave: number): Promise<void> {
  const subjects = Array.from(
    { length: runsOfWave },
    (_, i) => `${i % 2 === 0 ? 'held' : 'free'} ${wave}.${i}`,
  )
  const people = startPeople(home, randomOfPeople)
  try {
    const starting = Promise.all(subjects.map((subject) => startRun(subject)))
    starting.catch(() => undefined)
    for (let round = 0; round < rounds; round += 1) await killThemAll()
    people.hurry()
    const runs = await starting
    for (const [i, runId] of runs.entries())
      await expectFinished(home, runId, subjects[i] as string, onlyQuick ? 0 : 1)
    expect(new Set(runs).size).toBe(runsOfWave)
  } catch (error) {
    throw new Error(`wave ${wave}, CHAOS_SEED=${seed}; ${home.stack.output().slice(-3_000)}`, {
      cause: error,
    })
  } finally {
    await people.stop()
  }
  expect(people.surprises).toEqual([])
  await expectQuiet(home)
}

/** Starts a run at a random moment while parts are being killed. */
async function startRun(subject: string): Promise<string> {
  await delay(random() * 30_000)
  return home.member.execute(workflowId, { subject, keys: [subject] }, { key: subject.replaceAll(' ', '-') })
}

/** Kills each part once, in the order and at the intervals of the seed. Then kills everything at once, and restarts. */
async function killThemAll(): Promise<void> {
  const parts = (['worker', 'api', 'temporal', 'postgres', 'worker'] as const)
    .map((part) => ({ part, place: random() }))
    .sort((a, b) => a.place - b.place)
  for (const { part } of parts) {
    await delay(500 + random() * 4_000)
    // The part may still be down because of the previous kill.
    await home.stack.kill9(part).catch(() => undefined)
  }
  await delay(1_000 + random() * 4_000)
  await home.stack.kill9('all')
  await home.start()
}
