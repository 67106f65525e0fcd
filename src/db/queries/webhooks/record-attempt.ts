import { sql, type RawBuilder } from 'kysely'

/**
 * Stores the result of an attempt in the delivery and in its webhook. Returns the number of failures since the last
 * success, and the seconds since the first of these failures.
 */
export const recordDeliveryAttempt = ({
  webhookId,
  deliveryId,
  delivered,
  status,
  error,
  isSlow,
  retryAfter,
  retries,
}: {
  readonly webhookId: string
  readonly deliveryId: string
  readonly delivered: boolean
  readonly status: number | null
  readonly error: string | null
  readonly isSlow: boolean
  /** Seconds of delay that the receiver asked for. */
  readonly retryAfter: number
  /**
   * Seconds until the next attempt. The first value applies after the first failed attempt, and so on. The last value
   * repeats.
   */
  readonly retries: readonly number[]
}): RawBuilder<{ readonly failures: number; readonly waits: number }> => {
  const ended = delivered ? sql`clock_timestamp()` : sql`null`
  const next = sql`clock_timestamp() + make_interval(secs => greatest(${retryAfter}::float8,
    (${retries}::float8[])[least(attempts + 1, ${retries.length})]))`
  return sql`
  with delivery as (
    update webhook_deliveries set attempts = attempts + 1, last_attempt_at = clock_timestamp(),
      last_status = ${status}::int, last_error = ${error}::text,
      state = ${delivered ? 'delivered' : 'waiting'}, ended_at = ${ended},
      next_attempt_at = ${delivered ? sql`null` : next}
    where id = ${deliveryId} and state = 'waiting'
  )
  update webhooks set is_slow = ${isSlow}, failures = case when ${delivered} then 0 else failures + 1 end,
    failing_since = case when ${delivered} then null else coalesce(failing_since, clock_timestamp()) end
  where id = ${webhookId}
  returning failures, coalesce(extract(epoch from clock_timestamp() - failing_since), 0)::float8 as waits`
}
