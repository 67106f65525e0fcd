import { expect, test } from '@jest/globals'
import { Pace } from '../../../src/activities/notify/pace.ts'

/** The limits are this many times faster in these tests. */
const speed = 100
const minute = 60_000 / speed

/** Milliseconds until all requests may be sent, if all of them are wanted at once. */
async function timeFor(
  requests: readonly (readonly [Parameters<Pace['take']>[0], string?])[],
): Promise<number> {
  const pace = new Pace(speed)
  const started = performance.now()
  await Promise.all(requests.map(([kind, place]) => pace.take(kind, place)))
  return performance.now() - started
}

/*
 * The tests state only the shortest time that a limit demands, so that a slow machine passes them. Without a limit, the
 * requests take no time at all. `early`: a timer may fire a little too early.
 */
const early = 5
test.each([
  ['post', 220, 20],
  ['open', 40, 10],
  ['history', 40, 10],
  ['update', 40, 10],
] as const)('%s: %i requests a minute, of which %i may go at once', async (kind, perMinute, burst) => {
  const count = burst + perMinute / 4
  const shortest = ((count - burst) / perMinute) * minute
  expect(await timeFor(Array.from({ length: count }, () => [kind]))).toBeGreaterThanOrEqual(shortest - early)
})

test('a conversation gets one message a second', async () => {
  const messages = Array.from({ length: 11 }, () => ['conversation', 'C1'] as const)
  expect(await timeFor(messages)).toBeGreaterThanOrEqual(10 * (1_000 / speed) - early)
})

test('conversations do not wait for each other', async () => {
  const pace = new Pace(1e-6)
  await Promise.all(Array.from({ length: 50 }, (_, each) => pace.take('conversation', `C${each}`)))
})
