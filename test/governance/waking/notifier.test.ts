import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import pg from 'pg'
import { newId } from '../../../src/contract/ids.ts'
import { createNotifier, payloadsOf, type Notifier } from '../../../src/governance/waking/notifier.ts'
import { resourcesOf } from '../../api/resources.ts'
import { startTestServer } from '../../api/server.ts'
import { testContext, type TestContext } from '../support.ts'

let running: TestContext
const opened: Notifier[] = []
beforeEach(async () => {
  running = await testContext()
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map((notifier) => notifier.close()))
  await running.close()
})

/** The notifier of a separate process. `poll` is in milliseconds; by default no poll happens during a test. */
function open(poll = 3_600_000): Notifier {
  const { config, pool, log } = running.another()
  const notifier = createNotifier({ config, pool, log, pollMilliseconds: poll })
  opened.push(notifier)
  return notifier
}

/** Subscribes to a run. `next` returns a promise of the next wake-up. */
function listen(notifier: Notifier, runId: string) {
  let resolve: () => void = () => {}
  const end = notifier.subscribe(runId, () => resolve())
  return { end, next: () => new Promise<void>((done) => (resolve = done)) }
}

describe('the notifier', () => {
  test('wakes its process at once, without the database', () => {
    const notifier = open()
    let woken = 0
    const end = notifier.subscribe('run_a', () => (woken += 1))
    notifier.subscribe('run_b', () => (woken += 100))
    notifier.touch(new Set(['run_a']))
    expect(woken).toBe(1)
    end()
    notifier.touch(new Set(['run_a']))
    expect(woken).toBe(1)
  })

  test('a subscriber that throws does not stop others from being woken', () => {
    const notifier = open()
    let woken = false
    notifier.subscribe('run_a', () => {
      throw new Error('mine')
    })
    notifier.subscribe('run_a', () => (woken = true))
    notifier.touch(new Set(['run_a']))
    expect(woken).toBe(true)
  })

  test('wakes another process', async () => {
    const [here, there] = [open(), open()]
    const subscription = listen(there, 'run_a')
    // The first wake-up shows that the listening connection is open.
    await subscription.next()
    const woken = subscription.next()
    here.touch(new Set(['run_b', 'run_a']))
    await woken
  })

  test('wakes all subscribers again after the listening connection was lost', async () => {
    const notifier = open()
    const subscription = listen(notifier, 'run_a')
    await subscription.next()
    const again = subscription.next()
    const admin = new pg.Client(running.adminUrl)
    await admin.connect()
    await admin.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'countersign-listen' and datname = current_database()",
    )
    await admin.end()
    await again
    const told = subscription.next()
    open().touch(new Set(['run_a']))
    await told
  })

  test('polling delivers a wake-up whose notification was lost', async () => {
    const server = await startTestServer()
    try {
      const { identities, context } = server
      const { ids } = await resourcesOf(server, identities.organization_id, identities.users.owner.user_id)
      const { config, pool, log } = context
      const notifier = createNotifier({ config, pool, log, pollMilliseconds: 20 })
      opened.push(notifier)
      const subscription = listen(notifier, ids.run)
      await subscription.next()
      for (let change = 0; change < 3; change += 1) {
        const woken = subscription.next()
        await pool.query('update runs set event_seq = event_seq + 1 where id = $1', [ids.run])
        await woken
      }
      await notifier.close()
    } finally {
      await server.close()
    }
  })

  test('without a database it neither throws nor ends the process', async () => {
    const context = running.another()
    await context.pool.end()
    const config = {
      ...context.config,
      database: { ...context.config.database, url: 'postgres://127.0.0.1:1/none' },
    }
    const notifier = createNotifier({ config, pool: context.pool, log: context.log, pollMilliseconds: 5 })
    let woken = 0
    notifier.subscribe('run_a', () => (woken += 1))
    notifier.touch(new Set(['run_a']))
    await notifier.close()
    expect(woken).toBe(1)
    Object.assign(context.pool, { end: () => Promise.resolve() })
  })
})

describe('payloads', () => {
  test('contain every id once, each below the limit of a notification, or the sign for all', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 3000 }), (count) => {
        const ids = Array.from({ length: count }, () => newId('run'))
        const payloads = payloadsOf('process-1', ids)
        for (const payload of payloads) expect(Buffer.byteLength(payload)).toBeLessThan(8000)
        const told = payloads.flatMap((payload) => (payload.split(':')[1] as string).split(','))
        if (told[0] !== '*') expect(told).toEqual(ids)
        else expect(count).toBeGreaterThan(1000)
      }),
      { numRuns: 50 },
    )
  })
})
