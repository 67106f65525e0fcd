import fc from 'fast-check'
import { createServer, type AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { startRunner, type Runner } from '../../../src/governance/lanes/runner.ts'
import type { Context } from '../../../src/governance/context.ts'
import {
  type StartRequest,
  type WorkflowEngine,
  watchTemporal,
} from '../../../src/governance/delivery/workflow-engine.ts'
import { startRun, temporalSender } from '../../../src/governance/delivery/relay.ts'
import { acceptRun } from '../../../src/governance/runs/start/accept.ts'
import { cancelRun } from '../../../src/governance/runs/end/cancel.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { until } from '../../stack/until.ts'
import { go, opOf, runOf, useEngine, type Engine } from '../runs/engine-fixture.ts'
import { skeletonOf } from '../../../src/governance/delivery/skeleton.ts'
import type { WorkflowStep } from '../../../src/contract/definition.ts'
import { createTemporalClient, temporalCheck } from '../../../src/shared/temporal.ts'
import { asAdmin } from '../../support/postgres.ts'
import { testTemporal } from '../../support/stack.ts'
import { newId } from '../../../src/contract/ids.ts'
import { Notifier, payloadsOf } from '../../../src/governance/waking/notifier.ts'

let engine: Engine
useEngine((started) => (engine = started))

/** A stand-in for Temporal that records the calls of the relay. `answer` decides how it answers. */
function fakeMotor(answer: (kind: string) => boolean = () => true) {
  const told: string[] = []
  const starts: StartRequest[] = []
  const tell = (kind: string, runId: string): Promise<boolean> => {
    told.push(`${kind} ${runId}`)
    return Promise.resolve().then(() => answer(kind))
  }
  const motor: WorkflowEngine = {
    start: async (request) => {
      starts.push(request)
      await tell('start', request.input.runId)
    },
    wake: (runId, wake) => tell(`wake ${wake.key ?? ''}`, runId),
    cancel: (runId) => tell('cancel', runId),
    describe: async () => 'missing',
  }
  return { motor, told, starts }
}
const relays: Runner[] = []
const relay = (motor: WorkflowEngine, context: Context = engine.context): Runner => {
  const started = startRunner(context, [temporalSender(context, motor, async () => true)])
  context.onOutbox = () => started.kick('temporal')
  relays.push(started)
  return started
}
const outbox = () =>
  engine.context.db.selectFrom('lanes').selectAll().where('kind', '=', 'temporal').execute()
const delivered = () => until('the outbox is empty', async () => (await outbox()).length === 0)

describe('the relay', () => {
  beforeEach(async () => {
    const open = engine.context.db.selectFrom('runs').select('id').where('finished_at', 'is', null)
    for (const { id } of await open.execute())
      await finishRun(engine.context, { runId: id, status: 'failed' })
    await engine.context.pool.query(`delete from lanes where kind = 'temporal'`)
  })
  afterEach(async () => {
    for (const each of relays.splice(0)) await each.stop()
  })

  test('starts a run with its skeleton, and nothing of its data', async () => {
    const { motor, starts } = fakeMotor()
    relay(motor)
    const steps = [{ id: 'a', tool: 'file_read', params: { path: '{{input.x}}' } }]
    const runId = await engine.run({ inputs: { x: { type: 'string' } }, steps }, { x: 'private' })
    await delivered()
    expect(starts).toHaveLength(1)
    expect(starts[0]?.input).toEqual({
      runId,
      interpreterVersion: 1,
      steps: [
        {
          id: 'a',
          activity: 'file_read',
          summary: 'file_read for step a',
          dependsOn: [],
          forEach: false,
          continueOnError: false,
          timeoutSeconds: 30,
        },
      ],
      gated: false,
      heartbeatSeconds: 10,
      searchAttributes: true,
    })
    expect(JSON.stringify(starts)).not.toContain('private')
  })

  test('repeats a failed delivery, and stores the reason meanwhile', async () => {
    let isGone = true
    const { motor, told } = fakeMotor(() => {
      if (isGone) throw new Error('no Temporal')
      return true
    })
    relay(motor)
    const runId = await engine.run()
    await until('failures are noted', async () => {
      const [row] = await outbox()
      return told.length >= 2 && row?.last_error === 'no Temporal'
    })
    isGone = false
    await delivered()
    expect(told.length).toBeGreaterThanOrEqual(3)
    expect(new Set(told)).toEqual(new Set([`start ${runId}`]))
  })

  test('keeps a wake-up or cancellation until the workflow has started; drops it once the run has ended', async () => {
    const { motor, told } = fakeMotor((kind) => kind === 'start')
    const runId = await engine.run()
    // A call is in progress, so the cancellation alone does not end the run.
    await go(engine, opOf(runId))
    await cancelRun(engine.context, { caller: engine.caller('member'), runId })
    relay(motor)
    await until('told twice', () => told.filter((each) => each === `cancel ${runId}`).length >= 2)
    expect(await outbox()).toMatchObject([
      { message: { kind: 'run.cancel' }, last_error: 'the workflow is not running yet' },
    ])
    await finishRun(engine.context, { runId, status: 'cancelled' })
    await delivered()
  })

  test('does not start a run that has ended', async () => {
    const { motor, told } = fakeMotor()
    const runId = await engine.run()
    await finishRun(engine.context, { runId, status: 'cancelled' })
    await startRun(engine.context, motor, async () => true, runId)
    await startRun(engine.context, motor, async () => true, 'run_none')
    relay(motor)
    await delivered()
    expect(told).toEqual([])
  })

  test('in several processes delivers each row once, over several batches', async () => {
    const { motor, told } = fakeMotor()
    const { workflow_id: workflowId } = await runOf(engine.context, await engine.run())
    const request = { caller: engine.caller('member'), workflowId, inputs: {} }
    await Promise.all(Array.from({ length: 120 }, () => acceptRun(engine.context, request)))
    for (const context of [engine.context, engine.another(), engine.another()])
      relay(motor, context).kick('temporal')
    await delivered()
    expect(told).toHaveLength(121)
    expect(new Set(told).size).toBe(121)
  })
})

const skeletonStep = (tool: string, over: object = {}) => {
  const step = { id: 's', tool, params: {}, ...over } as WorkflowStep
  const version = { definition: { steps: [step] }, dependsOn: new Map() }
  return skeletonOf(version as unknown as Parameters<typeof skeletonOf>[0])[0]
}

describe('items at once', () => {
  test.each([
    ['memory_set', 10],
    ['memory_get', 10],
    ['file_read', 10],
    ['mail_send', undefined],
    ['github_list_issues', undefined],
    ['llm_generate', undefined],
  ])('of %s: %s', (tool, count) => {
    expect(skeletonStep(tool, { for_each: [1, 2] })?.itemsAtOnce).toBe(count)
    expect(skeletonStep(tool)?.itemsAtOnce).toBeUndefined()
  })

  test('of a quick call to a service: 10', () => {
    const step = skeletonStep('github_list_issues', { for_each: [1, 2], timeout_seconds: 10 })
    expect([step?.quick, step?.itemsAtOnce]).toEqual([true, 10])
  })
})

describe('the watch of Temporal', () => {
  /** A check of the Temporal server at this address. */
  function checkOf(address: string) {
    const client = createTemporalClient({ ...engine.context.config.temporal, address })
    return { check: temporalCheck(client.connection), close: () => client.connection.close() }
  }

  test('a process knows when Temporal does not answer, and when it does again', async () => {
    const { context } = engine
    const there = checkOf((await testTemporal()).address)
    const refusing = checkOf('127.0.0.1:1')
    await watchTemporal(context, there.check)
    expect(context.isTemporalAway).toBe(false)
    await watchTemporal(context, refusing.check)
    expect(context.isTemporalAway).toBe(true)
    await watchTemporal(context, there.check)
    expect(context.isTemporalAway).toBe(false)
    await Promise.all([there.close(), refusing.close()])
  })

  test('a server that takes the connection and says nothing does not answer', async () => {
    const silent = createServer(() => undefined).listen(0, '127.0.0.1')
    await new Promise((resolve) => silent.once('listening', resolve))
    const { check, close } = checkOf(`127.0.0.1:${(silent.address() as AddressInfo).port}`)
    await watchTemporal(engine.context, check)
    expect(engine.context.isTemporalAway).toBe(true)
    await close()
    silent.close()
  })
})

const opened: Notifier[] = []
/** The notifier of a separate process. `poll` is in milliseconds; by default no poll happens during a test. */
function open(poll = 3_600_000): Notifier {
  const { config, pool, log } = engine.another()
  const notifier = new Notifier({ config, pool, log, pollMilliseconds: poll })
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
  afterEach(() => Promise.all(opened.splice(0).map((notifier) => notifier.close())))

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
    const listening = `application_name = 'countersign-listen' and datname = current_database()`
    await asAdmin(engine.adminUrl, (client) =>
      client.query(`select pg_terminate_backend(pid) from pg_stat_activity where ${listening}`),
    )
    await again
    const told = subscription.next()
    open().touch(new Set(['run_a']))
    await told
  })

  test('polling delivers a wake-up whose notification was lost', async () => {
    const runId = await engine.run()
    const subscription = listen(open(20), runId)
    await subscription.next()
    for (let change = 0; change < 3; change += 1) {
      const woken = subscription.next()
      await engine.context.pool.query('update runs set event_seq = event_seq + 1 where id = $1', [runId])
      await woken
    }
  })

  test('without a database it neither throws nor ends the process', async () => {
    const context = engine.another()
    await context.pool.end()
    const config = {
      ...context.config,
      database: { ...context.config.database, url: 'postgres://127.0.0.1:1/none' },
    }
    const notifier = new Notifier({ config, pool: context.pool, log: context.log, pollMilliseconds: 5 })
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
