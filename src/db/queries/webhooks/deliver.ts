import { sql, type RawBuilder } from 'kysely'

export interface DueDelivery {
  readonly id: string
  readonly event_id: string
  readonly message: string
  readonly target_sealed: Buffer
  readonly target_version: string
}

/** The longest due one; no row if none is due or the webhook is off. */
export const nextDueDelivery = (webhookId: string): RawBuilder<DueDelivery> => sql`
  select d.id, d.event_id, e.message, w.target_sealed, w.target_version
  from webhooks w
  cross join lateral (
    select id, event_id from webhook_deliveries
    where webhook_id = w.id and state = 'waiting' and next_attempt_at <= clock_timestamp()
      and give_up_at > clock_timestamp()
    order by next_attempt_at limit 1
  ) as d
  join webhook_events e on e.id = d.event_id
  where w.id = ${webhookId} and w.active`

const isFree = sql`(leased_until is null or leased_until <= clock_timestamp())`

/** The longest waiting first. `isAiling`: only those whose last attempt failed or was slow; else only the others. */
export const leaseDueWebhooks = (given: {
  readonly isAiling: boolean
  readonly mostOfOrganization: number
  readonly leaseSeconds: number
  readonly limit: number
}): RawBuilder<{ readonly id: string; readonly organization_id: string }> => sql`
  with busy as (
    select organization_id, count(*) as places from webhooks
    where leased_until > clock_timestamp() group by organization_id
  ), due as (
    select id, organization_id, due_at, failures > 0 or is_slow as is_ailing,
           row_number() over (partition by organization_id order by failures > 0 or is_slow, due_at, id) as place
    from webhooks
    where active and due_at <= clock_timestamp() and ${isFree}
  ), chosen as (
    select id from due left join busy using (organization_id)
    where place + coalesce(places, 0) <= ${given.mostOfOrganization} and is_ailing = ${given.isAiling}
    order by due_at limit ${given.limit}
  )
  update webhooks set leased_until = clock_timestamp() + make_interval(secs => ${given.leaseSeconds})
  where id in (select id from webhooks where id in (select id from chosen) and ${isFree} for update skip locked)
  returning id, organization_id`

/** Returns the failures since the last success, and the seconds since the first of them. */
export const recordDeliveryAttempt = (given: {
  readonly webhookId: string
  readonly deliveryId: string
  readonly delivered: boolean
  readonly status: number | null
  readonly error: string | null
  readonly isSlow: boolean
  /** Seconds that the receiver asked for. */
  readonly retryAfter: number
  /** Seconds after the first failed attempt, and so on. The last value repeats. */
  readonly retries: readonly number[]
}): RawBuilder<{ readonly failures: number; readonly waits: number }> => {
  const ended = given.delivered ? sql`clock_timestamp()` : sql`null`
  const next = sql`clock_timestamp() + make_interval(secs => greatest(${given.retryAfter}::float8,
    (${given.retries}::float8[])[least(attempts + 1, ${given.retries.length})]))`
  return sql`
  with delivery as (
    update webhook_deliveries set attempts = attempts + 1, last_attempt_at = clock_timestamp(),
      last_status = ${given.status}::int, last_error = ${given.error}::text,
      state = ${given.delivered ? 'delivered' : 'waiting'}, ended_at = ${ended},
      next_attempt_at = ${given.delivered ? sql`null` : next}
    where id = ${given.deliveryId} and state = 'waiting'
  )
  update webhooks set is_slow = ${given.isSlow}, failures = case when ${given.delivered} then 0 else failures + 1 end,
    failing_since = case when ${given.delivered} then null else coalesce(failing_since, clock_timestamp()) end
  where id = ${given.webhookId}
  returning failures, coalesce(extract(epoch from clock_timestamp() - failing_since), 0)::float8 as waits`
}
