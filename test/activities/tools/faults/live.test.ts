import { expect, test } from '@jest/globals'
import { chosenServices, liveOf } from './live.ts'
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
  expect(liveOf(github!, env)).toEqual({ url: 'https://api.github.com', token: 't', place })
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
