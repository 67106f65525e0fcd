/** A longer wait is shortened. */
export const longestRetryAfter = 3_600

/**
 * Seconds to wait; null if the service asks for none. `Retry-After` is in seconds or a date. Otherwise, where
 * `X-RateLimit-Remaining` is 0, `X-RateLimit-Reset` is the end in epoch seconds. Several limits are lists, with resets
 * in seconds from now: remaining `0, 14` and reset `1, 1419704` mean one second.
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

/** Empty if one part is not a number. */
function listed(text: string | null): number[] {
  const parts = (text ?? '').split(',', 10).map((part) => part.trim())
  return parts.every((part) => /^\d{1,12}$/.test(part)) ? parts.map(Number) : []
}

const limited = (seconds: number): number => Math.min(Math.max(Math.ceil(seconds), 0), longestRetryAfter)
