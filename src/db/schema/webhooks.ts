import type { ColumnType, Generated } from 'kysely'
import type { EventData, WebhookEvent } from '../../contract/webhook-events.ts'

/** Webhooks of organizations. */
export interface WebhooksTable {
  id: string
  organization_id: string
  /** JSON of a `WebhookTarget`. */
  target_sealed: Buffer
  /** Of its address, for the log. */
  host: string
  events: string[]
  active: Generated<boolean>
  /** Why the service turned it off; null: it did not. */
  disabled_reason: Generated<string | null>
  created_at: Generated<Date>
  created_by: string
  /** When a worker must look at its deliveries; null: none waits. */
  due_at: Generated<Date | null>
  /** Until when one worker alone sends its deliveries. */
  leased_until: Generated<Date | null>
  /** Failed attempts since the last success. */
  failures: Generated<number>
  failing_since: Generated<Date | null>
  /** Whether its last answer took long. */
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

/** One event for one webhook. */
export interface WebhookDeliveriesTable {
  id: string
  organization_id: string
  webhook_id: string
  event_id: string
  state: 'waiting' | 'delivered' | 'failed'
  attempts: Generated<number>
  /** null: it has ended. */
  next_attempt_at: Date | null
  /** After this time it is not tried again. */
  give_up_at: Date
  last_attempt_at: Generated<Date | null>
  /** The status of the last answer; null without one. */
  last_status: Generated<number | null>
  last_error: Generated<string | null>
  created_at: Date
  ended_at: Generated<Date | null>
}
