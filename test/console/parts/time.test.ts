import { expect, test } from '@jest/globals'
import { h } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { distance, Time } from '../../../src/console/parts/time.ts'

const [second, minute, hour, day] = [1_000, 60_000, 3_600_000, 86_400_000] as const

test.each([
  [7 * day - 13 * second, '7 days'],
  [7 * day, '7 days'],
  [6.4 * day, '6 days'],
  [36 * hour, '36 hours'],
  [day - 13 * second, '1 day'],
  [day, '1 day'],
  [hour - 13 * second, '1 hour'],
  [90 * minute, '90 minutes'],
  [2 * hour - second, '2 hours'],
  [100 * second, '2 minutes'],
  [89 * second, '1 minute'],
  [61 * second, '1 minute'],
  [58 * second, '58 seconds'],
  [minute, '1 minute'],
  [second, '1 second'],
  [400, '0 seconds'],
  [-5 * minute, '5 minutes'],
])('%d milliseconds are %s', (milliseconds, words) => {
  expect(distance(milliseconds)).toBe(words)
})

test('an exact time has its zone', () => {
  const html = renderToString(
    h(Time, { at: '2026-11-25T23:32:10.000Z', now: new Date('2026-11-25T23:34:10.000Z'), exact: true }),
  )
  expect(html).toContain('2 minutes ago (25 Nov 2026, 23:32 UTC)')
  expect(html).toContain('title="25 Nov 2026, 23:32 UTC"')
})
