import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { Leaving } from '../../src/activities/leaving.ts'

let now = 0
/** How much further the wall clock has run than the steady clock, in milliseconds. */
let suspended = 0
beforeEach(() => {
  now = 1_000
  suspended = 0
  jest.spyOn(performance, 'now').mockImplementation(() => now)
  jest.spyOn(Date, 'now').mockImplementation(() => now + suspended)
})
afterEach(() => void jest.restoreAllMocks())

const stalled = expect.objectContaining({ code: 'stalled', retryable: true })
const begun = (mayBeMadeElsewhere = true): Leaving => {
  const leaving = new Leaving()
  leaving.begin({ steady: 0, wall: 0 }, mayBeMadeElsewhere)
  return leaving
}

test('a request leaves within ten seconds of asking for the point of no return', () => {
  const leaving = begun()
  now = 10_000
  leaving.requireFresh()
  now = 10_001
  expect(() => begun()).toThrow(stalled)
})

test('nothing leaves after the machine was suspended, while the steady clock stood still', () => {
  const leaving = begun()
  suspended = 60_000
  expect(() => leaving.requireFresh()).toThrow(stalled)
})

test('a wall clock that was set back gives no more time', () => {
  const leaving = begun()
  now = 10_001
  suspended = -60_000
  expect(() => leaving.requireFresh()).toThrow(stalled)
})

test('a later request of the same call may follow the longest request', () => {
  const leaving = begun()
  leaving.requireFresh()
  now = 50_000
  leaving.requireFresh()
  now = 90_001
  expect(() => leaving.requireFresh()).toThrow(stalled)
})

test('a call that no other attempt looks for has time', () => {
  const leaving = begun(false)
  now = 1_000_000
  leaving.requireFresh()
})

test('no request with an effect leaves before the point of no return', () => {
  expect(() => new Leaving().requireFresh()).toThrow('before the point of no return')
})
