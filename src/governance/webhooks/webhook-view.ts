import type { Selectable } from 'kysely'
import type { WebhookDeliveriesTable, WebhooksTable } from '../../db/schema/webhooks.ts'
import { formerSecret, type WebhookTarget } from './target.ts'

export type WebhookRow = Selectable<WebhooksTable>

/** A webhook as the API shows it, without its secrets. */
export interface WebhookView {
  readonly id: string
  readonly organization_id: string
  readonly url: string
  readonly events: readonly string[]
  readonly active: boolean
  /** The reason why the service turned the webhook off; null if it did not. */
  readonly disabled_reason: string | null
  /** The time of the first failed attempt since the last success; null if there is no such failure. */
  readonly failing_since: string | null
  /** Requests are also signed with the former secret until this time. Is null if only the new secret signs. */
  readonly former_secret_until: string | null
  readonly created_at: string
  readonly created_by: string
}

export const webhookView = (row: WebhookRow, target: WebhookTarget): WebhookView => ({
  id: row.id,
  organization_id: row.organization_id,
  url: target.url,
  events: row.events,
  active: row.active,
  disabled_reason: row.disabled_reason,
  failing_since: row.failing_since?.toISOString() ?? null,
  former_secret_until: formerSecret(target)?.until ?? null,
  created_at: row.created_at.toISOString(),
  created_by: row.created_by,
})

/** The delivery of one event to one webhook, as the API shows it. */
export interface DeliveryView {
  readonly id: string
  readonly webhook_id: string
  /** The `webhook-id` of the delivery's requests. */
  readonly event_id: string
  readonly event_type: string
  readonly state: 'waiting' | 'delivered' | 'failed'
  readonly attempts: number
  readonly last_status: number | null
  readonly last_error: string | null
  readonly last_attempt_at: string | null
  readonly next_attempt_at: string | null
  readonly created_at: string
  readonly ended_at: string | null
}

export const deliveryView = (
  row: Selectable<WebhookDeliveriesTable> & { readonly event_type: string },
): DeliveryView => ({
  id: row.id,
  webhook_id: row.webhook_id,
  event_id: row.event_id,
  event_type: row.event_type,
  state: row.state,
  attempts: row.attempts,
  last_status: row.last_status,
  last_error: row.last_error,
  last_attempt_at: row.last_attempt_at?.toISOString() ?? null,
  next_attempt_at: row.next_attempt_at?.toISOString() ?? null,
  created_at: row.created_at.toISOString(),
  ended_at: row.ended_at?.toISOString() ?? null,
})
