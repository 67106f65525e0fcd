import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { askAt } from './ask.ts'
import { Call, passing } from './call.ts'
import { commentsOf, commentsWithFiles } from './files.ts'
import { github } from '../services/github.ts'
import { drip } from './hostile.ts'
import { chosenServices, liveOf } from './live.ts'
import { cancelInFlight, type Proxied, seemDead, useProxied } from './proxied.ts'
import { endedOf, first, keepsPromise, once, rowsOf, unknown } from './rows.ts'
import type { Ended } from './service.ts'
import { services, testedElsewhere, titled } from './services.ts'
import { type Engine, useEngine } from '../../governance/runs/engine-fixture.ts'
import { catalog, getTool, type ToolName } from '../../../src/tools/index.ts'
import { changeQuota } from '../../../src/governance/limits/quota.ts'
import { SecretsUnavailable } from '../../../src/governance/sealing/secrets-backend.ts'
import { type Emulator, emulatorToken } from '../../support/emulators.ts'
import type { Fault } from '../../support/fault-proxy.ts'

/*
 * Calls that write, through everything: decision, real client, a proxy with a fault, and a server that keeps state. In
 * the end the effect exists once, or it does not exist and the step says so, or a person is asked. A new tool needs
 * one entry in a file of `test/tools/services`.
 */

let engine: Engine
useEngine((started) => (engine = started))
// The runs of these calls never end, and each run keeps its slot.
beforeAll(() => changeQuota(engine.context, engine.caller('owner'), { concurrent_executions: 10_000 }))

test('each tool that writes has its faults here, or is tested elsewhere', () => {
  const writing = Object.values(catalog).filter((tool) => tool.sideEffect !== 'read')
  const here = services.flatMap(({ tools }) => Object.keys(tools))
  expect([...here, ...Object.keys(testedElsewhere)].sort()).toEqual(writing.map(({ name }) => name).sort())
})

test.each(Object.entries(testedElsewhere))('%s is tested in files that exist', (_, files) => {
  const root = join(import.meta.dirname, '../../..')
  expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([])
})

/** Counts the requests of a call, by kind. */
function counted(proxied: Proxied, read: Proxied['ofReads'] = () => 'pass') {
  const asked = { reads: 0, writes: 0 }
  proxied.ofReads = () => {
    asked.reads += 1
    return read()
  }
  proxied.ofWrites = () => {
    asked.writes += 1
    return 'pass'
  }
  return asked
}

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
      const asked = counted(proxied)
      let hasPassed = false
      const stalled = await call.attempt(
        passing(tool, async (real) => {
          await commit(real)
          hasPassed = true
        }),
      )
      expect([stalled, asked.writes, hasPassed]).toEqual(['again', 0, passes])
      jest.restoreAllMocks()
      await call.untilOver()
      expect(await call.ended()).toEqual(once)
    })
  })

  const reading = tools.filter((tool) => (service.tools[tool]?.readsBefore ?? 0) > 0)
  if (reading.length > 0)
    test.each(reading)('%s that is cancelled while it reads sends nothing', async (tool) => {
      const call = await proxied.start(tool)
      const waits = Promise.withResolvers<void>()
      const asked = counted(proxied, () => {
        waits.resolve()
        return drip(() => {})
      })
      const attempt = call.attempt()
      await waits.promise
      call.cancel()
      expect(await attempt).toBe('over')
      expect(await call.ended()).toEqual({ state: 'cancelled', made: 0 })
      expect(asked).toEqual({ reads: 1, writes: 0 })
    })

  const findable = tools.filter((tool) => catalog[tool].repeat === 'findable')
  if (findable.length === 0) return

  describe.each(findable)('%s, if', (tool) => {
    test('its list lags, is not made again before the delay', async () => {
      const { findableAfterSeconds: delay = 0 } = getTool(tool) ?? {}
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
      const asked = counted(proxied)
      const replaced = await call.attempt(passing(tool, (commit) => proxied.reconnect().then(commit)))
      expect([replaced, asked.writes]).toEqual(['again', 0])
      await call.untilOver()
      expect(await call.ended()).toEqual(once)
    })

    test.each([
      ['answered', 'pass', once],
      ['carried out, and the answer is lost', 'lose answer', once],
      ['lost', 'cut', unknown(0)],
    ] as const)('it is cancelled, and its request is then %s', async (_, fault, expected) => {
      const call = await proxied.start(tool)
      expect(await cancelInFlight(proxied, call, fault)).toBe('over')
      expect(await call.ended()).toEqual(expected)
    })

    test.each([true, false])(
      'its run is cancelled between a lost answer and the look for it, asks a person, request carried out: %s',
      async (isMade) => {
        const call = await proxied.start(tool)
        proxied.ofWrites = () => (isMade ? 'lose answer' : 'cut')
        expect(await call.attempt()).toBe('again')
        const asked = counted(proxied)
        await call.endCancelled()
        await call.attempt()
        expect(await call.ended()).toEqual(unknown(isMade ? 1 : 0))
        expect(asked.writes).toBe(0)
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
        const goOn = await seemDead(proxied, call, tool, isMade ? 'pass' : 'cut')
        const isAsked = !isMade && service.tools[tool]?.mayStillAppear === true
        await call.later()
        await call.untilOver()
        expect(await call.ended()).toEqual(isAsked ? unknown(0) : once)
        // The worker was only slow: the late result changes nothing.
        await goOn()
        expect(await call.ended()).toEqual(isAsked ? unknown(0) : once)
      },
    )
  })
})

describe('while the backend of secrets is away', () => {
  const proxied = useProxied(github, () => engine)
  test('a call asks its service nothing, and a later attempt makes it', async () => {
    const call = await proxied.start('github_comment')
    const asked = counted(proxied)
    const kept = engine.context.secrets
    const read = () => Promise.reject(new SecretsUnavailable('away'))
    try {
      Object.assign(engine.context, { secrets: { ...kept, read } })
      expect(await call.attempt()).toBe('again')
      expect(asked).toEqual({ reads: 0, writes: 0 })
    } finally {
      Object.assign(engine.context, { secrets: kept })
    }
    expect(await call.attempt()).toBe('over')
    expect(await call.ended()).toEqual(once)
    expect(asked.writes).toBe(1)
  })
})

/*
 * Comments with a file: the file is written first, then the comment. In the end there is one file and one comment, or
 * there is neither and the step says so, or a person is asked.
 */

type End = readonly [state: Ended['state'], comments: number, files: number]
const both: End = ['completed', 1, 1]
const asksAboutFile: End = ['unknown_outcome', 0, 1]
const neither: End = ['failed', 0, 0]

const rows: readonly (readonly [what: string, write: 'file' | 'comment', fault: Fault, end: End])[] = [
  ['nothing goes wrong', 'file', 'pass', both],
  ['the connection is cut before', 'file', 'cut', both],
  ['the answer is lost', 'file', 'lose answer', asksAboutFile],
  ['the answer breaks off', 'file', 'break off', asksAboutFile],
  ['HTML comes back', 'file', 'garble', asksAboutFile],
  ['502 comes back after it was carried out', 'file', 'fail after', asksAboutFile],
  ['503 comes back', 'file', { status: 503 }, both],
  ['429 comes back', 'file', { status: 429 }, both],
  ['it is refused', 'file', { status: 413 }, neither],
  ['the connection is cut before', 'comment', 'cut', asksAboutFile],
  ['the answer is lost', 'comment', 'lose answer', both],
  ['the answer breaks off', 'comment', 'break off', both],
  ['HTML comes back', 'comment', 'garble', both],
  ['502 comes back after it was carried out', 'comment', 'fail after', both],
  ['503 comes back', 'comment', { status: 503 }, asksAboutFile],
  ['429 comes back', 'comment', { status: 429 }, asksAboutFile],
  ['it is refused', 'comment', { status: 403 }, asksAboutFile],
]

describe.each(commentsWithFiles)('$tool with a file', (given) => {
  const { service, tool } = given
  const proxied = useProxied(service, () => engine)

  test.each(rows)('if %s, for its %s', async (_, write, fault, [state, comments, files]) => {
    const text = `t${Math.random().toString(36).slice(2)}`
    const ask = askAt(service, proxied.url)
    const made = () => commentsOf(given)(ask, text, service.place, proxied.url)
    const call = await Call.start({ engine, tool, params: given.params(text), made })
    let writes = 0
    proxied.ofWrites = () => {
      writes += 1
      return writes === (write === 'file' ? 1 : 2) ? fault : 'pass'
    }
    const ended = await (await call.untilOver()).ended()
    const told = { state: ended.state, comments: ended.made, files: await given.files(ask, text) }
    expect(told).toEqual({ state, comments, files })
  })
})

const place = 'https://github.com/acme/scratch/issues/1'

test('without LIVE_TESTS no service is a real one', () => {
  for (const env of [{}, { LIVE_TESTS: '' }, { LIVE_GITHUB_TOKEN: 't', LIVE_GITHUB_PLACE: place }]) {
    expect(chosenServices(env)).toBe(services)
    expect(services.map((service) => liveOf(service, env))).toEqual(services.map(() => null))
  }
})

test('LIVE_TESTS chooses services, each with its own variables', () => {
  const env = { LIVE_TESTS: 'github', LIVE_GITHUB_TOKEN: 't', LIVE_GITHUB_PLACE: place }
  expect(chosenServices(env)).toEqual([github])
  const live = { url: 'https://api.github.com', token: 't', place, listDelay: 5_000 }
  expect(liveOf(github, env)).toEqual(live)
  expect(liveOf(github, { ...env, LIVE_GITHUB_URL: 'http://127.0.0.1:1' })?.url).toBe('http://127.0.0.1:1')
  expect(chosenServices({ LIVE_TESTS: ' slack , github ' }).map(({ name }) => name)).toEqual([
    'github',
    'slack',
  ])
})

test('a missing variable and an unknown service are named', () => {
  expect(() => liveOf(github, { LIVE_TESTS: 'github', LIVE_GITHUB_TOKEN: 't' })).toThrow('LIVE_GITHUB_PLACE')
  expect(() => chosenServices({ LIVE_TESTS: 'github,gitlab' })).toThrow('`gitlab`')
})

const withLive = services.filter(({ live }) => live !== undefined)

describe.each(withLive.map((service) => [service.name, service] as const))(
  'the calls to %s itself, as its stand-in plays it',
  (name, service) => {
    let standIn: Emulator
    beforeAll(async () => {
      standIn = await service.start()
    })
    afterAll(() => standIn?.close())
    const live = {
      token: emulatorToken,
      place: service.place,
      listDelay: 0,
      get url() {
        const prefix = `LIVE_${name.toUpperCase()}`
        const given = { [`${prefix}_TOKEN`]: 't', [`${prefix}_PLACE`]: 'p', [`${prefix}_URL`]: standIn.url }
        return liveOf(service, { LIVE_TESTS: name, ...given })?.url ?? ''
      },
    }
    const proxied = useProxied(service, () => engine, live)

    test.each(Object.keys(service.tools) as ToolName[])('%s whose answer is lost is found', async (tool) => {
      const call = await proxied.start(tool)
      proxied.ofWrites = first('lose answer')
      expect(await (await call.untilOver()).ended()).toEqual(once)
    })
  },
)
