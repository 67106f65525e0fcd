import type { ColumnType, Generated } from 'kysely'
import type { EventData, WebhookEvent } from '../../contract/webhook-events.ts'

export interface WebhooksTable {
  id: string
  organization_id: string
  target_sealed: Buffer
  target_version: string
  host: string
  events: string[]
  active: Generated<boolean>
  /** Null if the service did not turn the webhook off. */
  disabled_reason: Generated<string | null>
  created_at: Generated<Date>
  created_by: string
  failing_since: Generated<Date | null>
}

export interface WebhookEventsTable {
  id: string
  organization_id: string
  type: WebhookEvent
  data: ColumnType<EventData, string, never>
  webhook_ids: string[]
  created_at: Date
  /** Null until the deliveries are written. */
  message: Generated<string | null>
}

export interface WebhookDeliveriesTable {
  id: string
  organization_id: string
  webhook_id: string
  event_id: string
  state: 'waiting' | 'delivered' | 'failed'
  attempts: Generated<number>
  /** Null if the delivery has ended. */
  next_attempt_at: Date | null
  give_up_at: Date
  last_attempt_at: Generated<Date | null>
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
