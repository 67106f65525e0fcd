import { sql, type RawBuilder, type Selectable } from 'kysely'
import type { WebhookDeliveriesTable } from '../../schema/webhooks.ts'
import type { WebhookEvent } from '../../../contract/webhook-events.ts'

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

/** The newest one of each of these webhooks that has any. */
export const newestDeliveries = (
  webhookIds: readonly string[],
): RawBuilder<Selectable<WebhookDeliveriesTable> & { readonly event_type: WebhookEvent }> => sql`
  select d.*, e.type as event_type
  from unnest(${webhookIds}::text[]) as w (id)
  cross join lateral (select * from webhook_deliveries where webhook_id = w.id order by id desc limit 1) as d
  join webhook_events e on e.id = d.event_id`

/** Seconds until its next delivery can be sent; null if none waits or the webhook is off. */
export const nextDueTime = (webhookId: string): RawBuilder<{ readonly due_in: number | null }> => sql`
  select extract(epoch from min(d.next_attempt_at) - clock_timestamp())::float8 as due_in
  from webhooks w join webhook_deliveries d on d.webhook_id = w.id
  where w.id = ${webhookId} and w.active and d.state = 'waiting' and d.give_up_at > clock_timestamp()`

/**
 * Returns the seconds since the first failure after the last success. No row if the webhook got another address or secret
 * since: the attempt says nothing about it.
 */
export const recordDeliveryAttempt = (given: {
  readonly webhookId: string
  readonly target: Buffer
  readonly deliveryId: string
  readonly delivered: boolean
  readonly status: number | null
  readonly error: string | null
  /** Seconds that the receiver asked for. */
  readonly retryAfter: number
  /** Seconds after the first failed attempt, and so on. The last value repeats. */
  readonly retries: readonly number[]
}): RawBuilder<{ readonly waits: number }> => {
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
  update webhooks set failing_since = case when ${given.delivered} then null else coalesce(failing_since, clock_timestamp()) end
  where id = ${given.webhookId} and target_sealed = ${given.target}
  returning coalesce(extract(epoch from clock_timestamp() - failing_since), 0)::float8 as waits`
}
