import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { issueDecidedCall, type DecidedCall } from '../../../../src/activities/decided-call.ts'
import { catalog, type ToolName } from '../../../../src/catalog/index.ts'
import { changeQuota } from '../../../../src/governance/limits/quota.ts'
import { useEngine, type Engine } from '../../../governance/runs/engine-fixture.ts'
import type { Fault } from '../../../support/fault-proxy.ts'
import { bodies } from './call.ts'
import { chosenServices, liveOf } from './live.ts'
import { useProxied } from './proxied.ts'
import { endedOf, first, keepsPromise, once, rowsOf, unknown } from './rows.ts'
import { services, testedElsewhere, titled } from './services.ts'

/*
 * Calls that write, through everything: decision, real client, a proxy with a fault, and a server that keeps state. In
 * the end the effect exists once, or it does not exist and the step says so, or a person is asked. A new tool needs
 * one entry in services.ts or in one of its services.
 */

let engine: Engine
useEngine((started) => (engine = started))
// The runs of these calls never end, and each run keeps its slot.
beforeAll(() => changeQuota(engine.context, engine.caller('owner'), { concurrent_executions: 10_000 }))

test('each tool that writes has its faults here, or is tested elsewhere', () => {
  const writing = Object.values(catalog).filter((tool) => tool.hasExecutor && tool.sideEffect !== 'read')
  const here = services.flatMap(({ tools }) => Object.keys(tools))
  expect([...here, ...Object.keys(testedElsewhere)].sort()).toEqual(writing.map(({ name }) => name).sort())
})

test.each(Object.entries(testedElsewhere))('%s is tested in files that exist', (_, files) => {
  const root = join(import.meta.dirname, '../../../..')
  expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([])
})

describe.each(titled(chosenServices()))('%s', (_, service) => {
  const live = liveOf(service)
  if (live !== null) jest.setTimeout(1_800_000)
  const proxied = useProxied(service, () => engine, live)
  const tools = Object.keys(service.tools) as ToolName[]

  describe.each(tools)('%s, if', (tool) => {
    test.each(rowsOf(service))('$name', async (row) => {
      const call = await proxied.start(tool)
      proxied.ofWrites = row.ofWrites()
      const ended = await (await call.untilOver()).ended()
      const { differs, mayStillAppear = false } = service.tools[tool] ?? {}
      expect(ended).toEqual(
        differs?.[row.name] ?? endedOf(row, service.repeat ?? catalog[tool].repeat, mayStillAppear),
      )
      expect(keepsPromise(ended)).toBe(true)
    })

    test('429 says how long to wait, waits so long', async () => {
      const call = await proxied.start(tool)
      proxied.ofWrites = first({ status: 429, headers: { 'retry-after': '7' } })
      await call.untilOver()
      expect(call.pauses).toEqual([7_000])
    })
  })

  describe.each(tools)('%s, if its worker stands still', (tool) => {
    const real = performance.now.bind(performance)
    afterEach(() => void jest.restoreAllMocks())
    const standStill = (): void => {
      jest.spyOn(performance, 'now').mockImplementation(() => real() + 10_001)
    }
    test.each<[string, (commit: () => Promise<void>) => Promise<void>, boolean]>([
      ['while its point of no return is committed', (commit) => (setImmediate(standStill), commit()), false],
      ['before its request leaves', (commit) => commit().then(standStill), true],
    ])('%s, sends nothing', async (_, commit, passes) => {
      const call = await proxied.start(tool)
      let [writes, hasPassed] = [0, false]
      proxied.ofWrites = () => {
        writes += 1
        return 'pass'
      }
      const stalled = await call.attempt((decided) => {
        const { call: given, context, look } = decided as DecidedCall
        const pointOfNoReturn = async (isKeyed?: boolean): Promise<void> => {
          await commit(() => context.pointOfNoReturn(isKeyed))
          hasPassed = true
        }
        return bodies[tool]!(issueDecidedCall(given, { ...context, pointOfNoReturn }, look))
      })
      expect([stalled, writes, hasPassed]).toEqual(['again', 0, passes])
      jest.restoreAllMocks()
      await call.untilOver()
      expect(await call.ended()).toEqual(once)
    })
  })

  const findable = tools.filter((tool) => catalog[tool].repeat === 'findable')
  if (findable.length === 0) return

  describe.each(findable)('%s, if', (tool) => {
    test('its list lags, is not made again before the delay', async () => {
      const { findableAfterSeconds: delay = 0 }: { findableAfterSeconds?: number } = catalog[tool]
      const call = await proxied.start(tool)
      let lags = true
      proxied.ofWrites = () => 'lose answer'
      proxied.ofLooks = () => (lags ? service.emptyList : 'pass')
      expect(await call.attempt()).toBe('again')
      expect(await call.attempt()).toBe('again')
      const [, untilKnown = 0] = call.pauses
      if (service.tools[tool]?.mayStillAppear === true) expect(untilKnown).toBe(15_000)
      else {
        expect(untilKnown).toBeGreaterThan((delay * 1_000) / 4)
        expect(untilKnown).toBeLessThanOrEqual(delay * 1_000)
      }
      lags = false
      expect(await call.attempt()).toBe('over')
      expect(await call.ended()).toEqual(once)
    })

    test('it cannot be looked for, asks a person', async () => {
      const call = await proxied.start(tool)
      proxied.ofWrites = () => 'lose answer'
      proxied.ofLooks = () => service.cannotLook
      await call.untilOver()
      expect(await call.ended()).toEqual(unknown(1))
    })

    test.each([true, false])(
      'its connection is replaced between a lost answer and the look for it, asks a person, request carried out: %s',
      async (isMade) => {
        const call = await proxied.start(tool)
        proxied.ofWrites = first(isMade ? 'lose answer' : 'cut')
        expect(await call.attempt()).toBe('again')
        await proxied.reconnect()
        await call.later()
        await call.untilOver()
        expect(await call.ended()).toEqual(unknown(isMade ? 1 : 0))
      },
    )

    test('its connection is replaced before its point of no return, is sent with the present one', async () => {
      const call = await proxied.start(tool)
      let writes = 0
      proxied.ofWrites = () => {
        writes += 1
        return 'pass'
      }
      const replaced = await call.attempt((decided) => {
        const { call: given, context, look } = decided as DecidedCall
        const pointOfNoReturn = async (): Promise<void> => {
          await proxied.reconnect()
          await context.pointOfNoReturn()
        }
        return bodies[tool]!(issueDecidedCall(given, { ...context, pointOfNoReturn }, look))
      })
      expect([replaced, writes]).toEqual(['again', 0])
      await call.untilOver()
      expect(await call.ended()).toEqual(once)
    })

    test.each([
      ['answered', 'pass', once],
      ['carried out, and the answer is lost', 'lose answer', once],
      ['lost', 'cut', unknown(0)],
    ] as const)('it is cancelled, and its request is then %s', async (_, fault, expected) => {
      const call = await proxied.start(tool)
      const arrived = Promise.withResolvers<void>()
      const cancelled = Promise.withResolvers<Fault>()
      proxied.ofWrites = () => {
        arrived.resolve()
        return cancelled.promise
      }
      const attempt = call.attempt()
      await arrived.promise
      call.cancel()
      cancelled.resolve(fault)
      expect(await attempt).toBe('over')
      expect(await call.ended()).toEqual(expected)
    })

    test.each([true, false])(
      'its run is cancelled between a lost answer and the look for it, asks a person, request carried out: %s',
      async (isMade) => {
        const call = await proxied.start(tool)
        proxied.ofWrites = () => (isMade ? 'lose answer' : 'cut')
        expect(await call.attempt()).toBe('again')
        let writes = 0
        proxied.ofWrites = () => {
          writes += 1
          return 'pass'
        }
        await call.endCancelled()
        await call.attempt()
        expect(await call.ended()).toEqual(unknown(isMade ? 1 : 0))
        expect(writes).toBe(0)
      },
    )

    test('looking fails for a while, is looked for again', async () => {
      const call = await proxied.start(tool)
      proxied.ofWrites = () => 'lose answer'
      proxied.ofLooks = first({ status: 503 })
      const attempts = [await call.attempt(), await call.attempt(), await call.attempt()]
      expect(attempts).toEqual(['again', 'again', 'over'])
      expect(call.pauses).toEqual([1_000, 15_000])
      expect(await call.ended()).toEqual(once)
    })

    test.each([true, false])(
      'its worker dies after the point of no return, request carried out: %s',
      async (isMade) => {
        const call = await proxied.start(tool)
        const dead = Promise.withResolvers<void>()
        const sent = Promise.withResolvers<void>()
        proxied.ofWrites = () => (isMade ? 'pass' : 'cut')
        const stuck = call.attempt(async (decided) => {
          try {
            return await bodies[tool]!(decided)
          } finally {
            sent.resolve()
            await dead.promise
          }
        })
        await sent.promise
        proxied.ofWrites = () => 'pass'
        const isAsked = !isMade && service.tools[tool]?.mayStillAppear === true
        await call.later()
        await call.untilOver()
        expect(await call.ended()).toEqual(isAsked ? unknown(0) : once)
        // The worker was only slow: the late result changes nothing.
        dead.resolve()
        await stuck
        expect(await call.ended()).toEqual(isAsked ? unknown(0) : once)
      },
    )
  })
})
