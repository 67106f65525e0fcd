/** A service can ask for a wait of at most this many seconds. A longer wait is shortened. */
export const longestRetryAfter = 3_600

/**
 * Returns the seconds to wait before the next request, as the service asks; null if it does not ask. Reads
 * `Retry-After` in seconds or as a date. Without this header, reads when an exhausted rate limit ends:
 * `X-RateLimit-Remaining: 0`, with `X-RateLimit-Reset` in epoch seconds. A service with several limits sends lists: the
 * remaining requests `0, 14`, and the seconds until the end of each limit, `1, 1419704`.
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

/** The numbers of a header; an empty list if one part is not a number. */
function listed(text: string | null): number[] {
  const parts = (text ?? '').split(',', 10).map((part) => part.trim())
  return parts.every((part) => /^\d{1,12}$/.test(part)) ? parts.map(Number) : []
}

const limited = (seconds: number): number => Math.min(Math.max(Math.ceil(seconds), 0), longestRetryAfter)
