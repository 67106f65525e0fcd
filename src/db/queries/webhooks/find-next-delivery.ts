import { sql, type RawBuilder } from 'kysely'

export interface DueDelivery {
  readonly id: string
  readonly event_id: string
  readonly message: string
  readonly target_sealed: Buffer
  readonly target_version: string
}

/**
 * Reads the webhook's delivery that has been due for the longest time. Returns no row if no delivery is due or the
 * webhook is not active.
 */
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
