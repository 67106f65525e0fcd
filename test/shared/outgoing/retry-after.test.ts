import { expect, test } from '@jest/globals'
import { retryAfterOf } from '../../../src/shared/outgoing/retry-after.ts'

const now = Date.parse('2026-11-23T04:00:00Z')

test.each([
  [{}, null],
  [{ 'retry-after': '7' }, 7],
  [{ 'retry-after': '0' }, 0],
  [{ 'retry-after': '1.5' }, 2],
  [{ 'retry-after': '99999999' }, 3_600],
  [{ 'retry-after': 'Mon, 23 Nov 2026 04:00:30 GMT' }, 30],
  [{ 'retry-after': 'Mon, 23 Nov 2026 03:00:00 GMT' }, 0],
  [{ 'retry-after': 'soon' }, null],
  [{ 'retry-after': '-3' }, null],
  [{ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(now / 1_000 + 60) }, 60],
  [{ 'x-ratelimit-remaining': '1', 'x-ratelimit-reset': String(now / 1_000 + 60) }, null],
  [{ 'x-ratelimit-remaining': '0' }, null],
  [{ 'x-ratelimit-remaining': '0, 14523', 'x-ratelimit-reset': '1, 1419704' }, 1],
  [{ 'x-ratelimit-remaining': '0, 0', 'x-ratelimit-reset': '1, 1419704' }, 3_600],
  [{ 'x-ratelimit-remaining': '1, 5', 'x-ratelimit-reset': '1, 60' }, null],
  [{ 'x-ratelimit-remaining': '0, x', 'x-ratelimit-reset': '1, 60' }, null],
  [{ 'retry-after': '5', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(now / 1_000 + 60) }, 5],
])('%j is %p seconds', (headers, seconds) => {
  expect(retryAfterOf(new Headers(headers as Record<string, string>), now)).toBe(seconds)
})
