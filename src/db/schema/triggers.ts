import type { ColumnType, Generated } from 'kysely'
import type { JsonObject } from '../../policy/types.ts'

export interface ScheduleSettings {
  /** Five fields; null: `every_seconds` counts. */
  readonly cron: string | null
  readonly every_seconds: number | null
  readonly time_zone: string
  readonly catch_up: 'none' | 'last' | 'all'
  readonly overlap: 'skip' | 'queue' | 'allow'
}

export interface WebhookSettings {
  readonly verify: 'standard' | 'github' | 'slack' | 'bearer'
  readonly answer: 'accepted' | 'result'
}

/** Its texts are expressions. */
export interface PollSettings {
  readonly tool: string
  readonly params: JsonObject
  readonly every_seconds: number
  /** Over `output`. */
  readonly list: string
  /** Over `item` and `output`. */
  readonly id: string
  /** As `id`. null: as the list has them. */
  readonly order: string | null
  /** What becomes of the items that the first call finds. */
  readonly first: 'skip' | 'all'
}

export type TriggerKind = 'schedule' | 'webhook' | 'poll'
export type TriggerSettings = ScheduleSettings | WebhookSettings | PollSettings

export interface TriggersTable {
  id: string
  organization_id: string
  workflow_id: string
  name: string
  kind: TriggerKind
  version: number | null
  service_account: string
  untrusted: Generated<boolean>
  settings: ColumnType<TriggerSettings, string, string>
  sealed: Buffer
  sealed_version: string
  armed_by: string[]
  with_factor: boolean
  active_since: Date
  paused_reason: string | null
  tells: Generated<boolean>
  /** null for a webhook. */
  next_due_at: Date | null
  /** null for other kinds. */
  poll_workflow_id: Generated<string | null>
  poll_run_id: Generated<string | null>
  polled_at: Generated<Date | null>
  created_by: string
  created_at: Date
  updated_at: Date
}

export interface TriggerFiringsTable {
  id: string
  organization_id: string
  trigger_id: string
  state: 'waiting' | 'started' | 'skipped' | 'failed'
  due_at: Date | null
  delivery_id: string | null
  run_id: string | null
  reason: string | null
  poll_run_id: Generated<string | null>
  created_at: Date
}

export interface TriggerItemsTable {
  trigger_id: string
  organization_id: string
  item: string
  seen_at: Date
}

export interface TriggersTables {
  triggers: TriggersTable
  trigger_firings: TriggerFiringsTable
  trigger_items: TriggerItemsTable
}
