import type { ColumnType, Generated } from 'kysely'

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

export interface TriggersTable {
  id: string
  organization_id: string
  workflow_id: string
  name: string
  kind: 'schedule' | 'webhook'
  version: number | null
  service_account: string
  untrusted: Generated<boolean>
  settings: ColumnType<ScheduleSettings | WebhookSettings, string, string>
  sealed: Buffer
  sealed_version: string
  armed_by: string[]
  with_factor: boolean
  active_since: Date
  paused_reason: string | null
  tells: Generated<boolean>
  /** null for a webhook. */
  next_due_at: Date | null
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
  created_at: Date
}

export interface TriggersTables {
  triggers: TriggersTable
  trigger_firings: TriggerFiringsTable
}
