import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { restartLane, takeLanes, wakeLanes } from '../../../src/db/queries/lanes.ts'
import { clockSender } from '../../../src/governance/lanes/clock.ts'
import { laneKinds, pauseAfter } from '../../../src/governance/lanes/lanes.ts'
import { startRunner, type Lane, type Rest, type Runner } from '../../../src/governance/lanes/runner.ts'
import { until } from '../../stack/until.ts'
import { addOrganization } from '../../api/fixtures.ts'
import { startEngine, type Engine } from '../runs/engine-fixture.ts'

let engine: Engine
const runners: Runner[] = []
beforeAll(async () => {
  engine = await startEngine()
})
beforeEach(() => engine.context.pool.query('delete from lanes'))
afterEach(async () => {
  for (const runner of runners.splice(0)) await runner.stop()
})
afterAll(() => engine?.close())

type Work = (lane: Lane, signal: AbortSignal) => Promise<Rest>

const rest: Rest = { dueIn: null }
/** Starts a runner for webhooks, which looks every 20 ms, with the context of this process or of another one. */
function run(work: Work, context = engine.context): Runner {
  const runner = startRunner(context, [{ kind: 'webhook', trouble: 'it failed', work }], 20)
  runners.push(runner)
  return runner
}
const wake = (id: string, organizationId = engine.organizationId) =>
  wakeLanes(sql`values ('webhook', ${id}, ${organizationId}, clock_timestamp())`).execute(engine.context.db)
const lane = async (id: string) => {
  const { rows } = await engine.context.pool.query(
    `select turn, failures, is_ailing, due_at = 'infinity' and turn is null as rests, extract(epoch from paused_until - now())::float8 as pause
     from lanes where id = $1`,
    [id],
  )
  return rows[0]
}
/** Takes lanes like another process. */
async function take(
  turn: string,
  over: Partial<Parameters<typeof takeLanes>[0]> = {},
): Promise<readonly string[]> {
  const limits = { ids: null, leaseSeconds: 50, most: 40, mostAiling: 20, mostOfOrganization: 3 }
  const { rows } = await takeLanes({ kind: 'webhook', turn, ...limits, ...over }).execute(engine.context.db)
  return rows.map(({ id }) => id).sort()
}
const endLeases = () =>
  engine.context.pool.query('update lanes set leased_until = now() where turn is not null')

describe('a lane', () => {
  test('has one turn at a time, over all processes', async () => {
    let now = 0
    let most = 0
    let turns = 0
    const work = async (): Promise<Rest> => {
      most = Math.max(most, (now += 1))
      await new Promise((resolve) => setImmediate(resolve))
      now -= 1
      turns += 1
      return { dueIn: turns < 20 ? 0 : null }
    }
    await wake('a')
    for (const context of [engine.context, engine.another(), engine.another()]) run(work, context)
    await until('20 turns', () => turns >= 20)
    expect(most).toBe(1)
  })

  test('that is woken during a turn has another turn', async () => {
    let turns = 0
    run(async () => {
      if ((turns += 1) === 1) await wake('a')
      return rest
    })
    await wake('a')
    await until('the lane rests', async () => turns >= 2 && (await lane('a')).rests)
    expect(turns).toBe(2)
  })

  test('of a dead process is taken when its lease ends, and not before', async () => {
    await wake('a')
    expect(await take('dead')).toEqual(['a'])
    await wake('a')
    expect(await take('other')).toEqual([])
    await endLeases()
    expect(await take('other')).toEqual(['a'])
  })

  test('that was lost: its turn is told, and its end changes nothing', async () => {
    const lost = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    const runner = run((_, signal) => {
      signal.addEventListener('abort', () => lost.resolve())
      begun.resolve()
      return lost.promise.then(() => ({ dueIn: 0, isDone: true }))
    })
    await wake('a')
    await begun.promise
    await engine.context.pool.query(`update lanes set turn = 'theirs'`)
    await lost.promise
    await runner.stop()
    expect(await lane('a')).toMatchObject({ turn: 'theirs' })
  })

  test('that fails pauses longer each time, also if it is woken; a success or a restart ends that', async () => {
    let turns = 0
    let isBroken = true
    run(async () => {
      turns += 1
      if (isBroken) throw new Error('broken')
      return rest
    })
    await wake('a')
    await until('it has failed', async () => (await lane('a')).failures === 1)
    await wake('a')
    const { pause } = await lane('a')
    expect(pause).toBeGreaterThan(0)
    expect(pause).toBeLessThanOrEqual(laneKinds.webhook.pause.first)
    await engine.context.pool.query('update lanes set paused_until = null')
    await until('it has failed again', async () => (await lane('a')).failures === 2)
    expect((await lane('a')).pause).toBeGreaterThan(laneKinds.webhook.pause.first)
    expect(turns).toBe(2)
    isBroken = false
    await restartLane({ kind: 'webhook', id: 'a', organizationId: engine.organizationId }).execute(
      engine.context.db,
    )
    await until('it rests', async () => (await lane('a')).rests)
    expect(await lane('a')).toMatchObject({ failures: 0, is_ailing: false, pause: null, turn: null })
  })
})

test.each([
  ['half a character', `${'x'.repeat(499)}\u{1F600}`],
  ['a NUL', 'a\u0000b'],
])('an error with %s does not keep other turns from ending', async (_, error) => {
  run(async ({ id }) => (id === 'broken' ? { dueIn: 0, hasFailed: true, error } : { ...rest, isDone: true }))
  await wakeLanes(
    sql`select 'webhook', id, ${engine.organizationId}, clock_timestamp() from unnest(array['broken', 'a', 'b']) as t(id)`,
  ).execute(engine.context.db)
  await until('the turns have ended', async () => {
    const { rows } = await engine.context.pool.query('select id, failures, turn from lanes')
    return JSON.stringify(rows) === JSON.stringify([{ id: 'broken', failures: 1, turn: null }])
  })
})

describe('messages to Temporal', () => {
  /** The first turn of `a` lasts until `end` is called. */
  async function withOneThatHangs(lookMilliseconds: number) {
    const hanging = Promise.withResolvers<Rest>()
    const taken: string[] = []
    const work = ({ id }: Lane): Promise<Rest> => {
      taken.push(id)
      return id === 'a' ? hanging.promise : Promise.resolve(rest)
    }
    const sender = { kind: 'temporal', trouble: 'it failed', work } as const
    const wakeOne = (id: string) =>
      wakeLanes(sql`values ('temporal', ${id}, ${engine.organizationId}, clock_timestamp())`).execute(
        engine.context.db,
      )
    await wakeOne('a')
    const runner = startRunner(engine.context, [sender], lookMilliseconds)
    runners.push(runner)
    await until('the turn has begun', () => taken.length === 1)
    await wakeOne('b')
    runner.kick('temporal')
    return { taken, end: () => hanging.resolve(rest) }
  }

  test('are taken in batches: the next take waits for the turns of the last one', async () => {
    const { taken, end } = await withOneThatHangs(100_000)
    // A take that did not wait would be sent before this statement.
    await engine.context.pool.query('select')
    expect(taken).toEqual(['a'])
    end()
    await until('the next batch', () => taken.length === 2)
  })

  test('do not wait longer than until the next look', async () => {
    const { taken, end } = await withOneThatHangs(20)
    await until('the next batch', () => taken.includes('b'))
    end()
  })
})

test('pauses double, up to a limit', () => {
  const { pause } = laneKinds.webhook
  expect([1, 2, 3, 8, 100, 10_000].map((failures) => pauseAfter(failures, pause))).toEqual([
    5, 10, 20, 600, 600, 600,
  ])
})

describe('shares', () => {
  test('one organization has few places, in all processes together', async () => {
    const { id: other } = await addOrganization(engine.context)
    for (const id of ['a', 'b', 'c', 'd', 'e']) await wake(id)
    await wake('z', other)
    expect(await take('first', { most: 2 })).toHaveLength(2)
    const next = await take('second')
    expect(next).toContain('z')
    expect(next).toHaveLength(2)
    expect(await take('third')).toEqual([])
  })

  test('lanes that failed or were slow take no more places than they may, and do not delay the others', async () => {
    for (const id of ['a', 'b', 'c', 'd']) await wake(id)
    await engine.context.pool.query(`update lanes set is_ailing = true, due_at = now() - interval '1 hour'`)
    await wake('sound')
    for (const mostOfOrganization of [null, 100]) {
      const taken = await take('first', { most: 4, mostAiling: 2, mostOfOrganization })
      expect(taken).toHaveLength(3)
      expect(taken).toContain('sound')
      await engine.context.pool.query(`update lanes set turn = null, leased_until = null, due_at = now()`)
    }
  })
})

test('a recurring task is done once for all processes, again after its seconds, and goes on after a failure', async () => {
  let rounds = 0
  const tasks = {
    prune: async () => {
      if ((rounds += 1) === 2) throw new Error('away')
    },
  }
  const seconds = { prune: 0 } as unknown as Parameters<typeof clockSender>[2]
  const contexts = [engine.context, engine.another()]
  for (const context of contexts)
    runners.push(startRunner(context, [clockSender(context, tasks, seconds)], 20))
  await until('it was done five times', () => rounds >= 5)
  const { rows } = await engine.context.pool.query(`select id from lanes where kind = 'clock'`)
  expect(rows).toEqual([{ id: 'prune' }])
})
