/** A service can ask for a wait of at most this many seconds. A longer wait is shortened. */
export const longestRetryAfter = 3_600

/**
 * Returns the seconds to wait before the next request; null if the service does not ask for a wait. Reads
 * `Retry-After`, in seconds or as a date. Otherwise reads `X-RateLimit-Remaining` and `X-RateLimit-Reset`. If the
 * remaining number is 0, the reset is the end of the wait, in epoch seconds. A service with several limits sends lists,
 * and its resets are seconds from now. Example: with remaining `0, 14` and reset `1, 1419704`, the wait is one second.
 */
export function retryAfterOf(headers: Pick<Headers, 'get'>, now = Date.now()): number | null {
  const asked = headers.get('retry-after')?.trim()
  if (asked !== undefined && asked !== '') {
    if (/^\d{1,9}(\.\d+)?$/.test(asked)) return limited(Number(asked))
    const at = /^[A-Z][a-z]{2}/.test(asked) ? Date.parse(asked) : Number.NaN
    if (!Number.isNaN(at)) return limited((at - now) / 1_000)
  }
  const remaining = listed(headers.get('x-ratelimit-remaining'))
  const resets = listed(headers.get('x-ratelimit-reset'))
  const exhausted = resets.filter((_, index) => remaining[index] === 0)
  if (exhausted.length === 0) return null
  return limited(Math.max(...exhausted) - (resets.length === 1 ? now / 1_000 : 0))
}

/** Returns the numbers of a header, or an empty list if one part is not a number. */
function listed(text: string | null): number[] {
  const parts = (text ?? '').split(',', 10).map((part) => part.trim())
  return parts.every((part) => /^\d{1,12}$/.test(part)) ? parts.map(Number) : []
}

const limited = (seconds: number): number => Math.min(Math.max(Math.ceil(seconds), 0), longestRetryAfter)
