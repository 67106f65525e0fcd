/** The longest wait that a service may ask for, in seconds. */
export const longestRetryAfter = 3_600

/**
 * Seconds to wait before the next request, as the service asks: `Retry-After` in seconds or as a date, or the end of an
 * exhausted rate limit (`X-RateLimit-Remaining: 0` with `X-RateLimit-Reset` in epoch seconds). null: it does not say.
 */
export function retryAfterOf(headers: Pick<Headers, 'get'>, now = Date.now()): number | null {
  const asked = headers.get('retry-after')?.trim()
  if (asked !== undefined && asked !== '') {
    if (/^\d{1,9}(\.\d+)?$/.test(asked)) return limited(Number(asked))
    const at = /^[A-Z][a-z]{2}/.test(asked) ? Date.parse(asked) : Number.NaN
    if (!Number.isNaN(at)) return limited((at - now) / 1_000)
  }
  const reset = headers.get('x-ratelimit-reset')
  if (headers.get('x-ratelimit-remaining') === '0' && reset !== null && /^\d{1,12}$/.test(reset))
    return limited(Number(reset) - now / 1_000)
  return null
}

const limited = (seconds: number): number => Math.min(Math.max(Math.ceil(seconds), 0), longestRetryAfter)
