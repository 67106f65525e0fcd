import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { ToolName } from '../../../../src/catalog/index.ts'
import { useEngine, type Engine } from '../../../governance/runs/engine-fixture.ts'
import { emulatorToken, type Emulator } from '../../../support/emulators.ts'
import { chosenServices, liveOf } from './live.ts'
import { useProxied } from './proxied.ts'
import { first, once } from './rows.ts'
import { services } from './services.ts'

const [github] = services.filter(({ name }) => name === 'github')
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
  expect(liveOf(github!, env)).toEqual(live)
  expect(liveOf(github!, { ...env, LIVE_GITHUB_URL: 'http://127.0.0.1:1' })?.url).toBe('http://127.0.0.1:1')
  expect(chosenServices({ LIVE_TESTS: ' slack , github ' }).map(({ name }) => name)).toEqual([
    'github',
    'slack',
  ])
})

test('a missing variable and an unknown service are named', () => {
  expect(() => liveOf(github!, { LIVE_TESTS: 'github', LIVE_GITHUB_TOKEN: 't' })).toThrow('LIVE_GITHUB_PLACE')
  expect(() => chosenServices({ LIVE_TESTS: 'github,gitlab' })).toThrow('`gitlab`')
})

const withLive = services.filter(({ live }) => live !== undefined)

describe.each(withLive.map((service) => [service.name, service] as const))(
  'the calls to %s itself, as its stand-in plays it',
  (name, service) => {
    let engine: Engine
    let standIn: Emulator
    useEngine((started) => (engine = started))
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
