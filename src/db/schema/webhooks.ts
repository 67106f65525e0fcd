import type { ColumnType, Generated } from 'kysely'
import type { EventData, WebhookEvent } from '../../contract/webhook-events.ts'

/** Webhooks of organizations. */
export interface WebhooksTable {
  id: string
  organization_id: string
  /** JSON of a `WebhookTarget`. */
  target_sealed: Buffer
  /** Changes each time the target is written. */
  target_version: string
  /** The host of the webhook's address, for the log. */
  host: string
  events: string[]
  active: Generated<boolean>
  /** The reason why the service turned the webhook off; null if the service did not do so. */
  disabled_reason: Generated<string | null>
  created_at: Generated<Date>
  created_by: string
  /** When a worker must process the webhook's deliveries; null if no delivery waits. */
  due_at: Generated<Date | null>
  /** Until this time, only the worker that has the lease sends the webhook's deliveries. */
  leased_until: Generated<Date | null>
  /** Number of failed attempts since the last success. */
  failures: Generated<number>
  failing_since: Generated<Date | null>
  /** Whether the webhook's last answer took long. */
  is_slow: Generated<boolean>
}

export interface WebhookEventsTable {
  id: string
  organization_id: string
  type: WebhookEvent
  data: ColumnType<EventData, string, never>
  webhook_ids: string[]
  created_at: Date
  /** The body of the requests; null until the deliveries are written. */
  message: Generated<string | null>
}

/** The delivery of one event to one webhook. */
export interface WebhookDeliveriesTable {
  id: string
  organization_id: string
  webhook_id: string
  event_id: string
  state: 'waiting' | 'delivered' | 'failed'
  attempts: Generated<number>
  /** When the next attempt is due; null if the delivery has ended. */
  next_attempt_at: Date | null
  /** After this time the delivery is not tried again. */
  give_up_at: Date
  last_attempt_at: Generated<Date | null>
  /** The HTTP status of the last answer; null if there was no answer. */
  last_status: Generated<number | null>
  last_error: Generated<string | null>
  created_at: Date
  ended_at: Generated<Date | null>
}

export interface WebhooksTables {
  webhooks: WebhooksTable
  webhook_events: WebhookEventsTable
  webhook_deliveries: WebhookDeliveriesTable
}
