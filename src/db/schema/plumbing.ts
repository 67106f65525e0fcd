import type { ColumnType, Generated } from 'kysely'

export interface LanesTable {
  kind: 'temporal' | 'slack' | 'mail' | 'webhook' | 'clock' | 'trigger'
  id: Generated<string>
  organization_id: Generated<string | null>
  /** What Temporal must be told; null for other kinds. */
  message: ColumnType<unknown, string | undefined, never>
  due_at: Generated<Date>
  paused_until: Generated<Date | null>
  /** The turn that works now, until the lease ends. */
  turn: Generated<string | null>
  leased_until: Generated<Date | null>
  failures: Generated<number>
  is_ailing: Generated<boolean>
  last_error: Generated<string | null>
  created_at: Generated<Date>
}

export interface IdempotencyKeysTable {
  organization_id: string
  user_id: string
  /** The API key, or the kind of the sign-in. Keys can have fewer scopes (docs/decisions/0013). */
  api_key_id: string
  /** The route's key with path parameters, or a hash. A closing slash or a prefix makes no difference. */
  route: string
  key: string
  body_hash: string
  locked_until: Date | null
  response_status: number | null
  response_body: string | null
  /** True once the change is committed. The answer is stored later. */
  acted: Generated<boolean>
  made: string | null
  created_at: Generated<Date>
}

export interface ProcessHeartbeatsTable {
  process_id: string
  kind: 'api' | 'worker'
  seen_at: Generated<Date>
}

/** From `started_at` on. A process leases a block of requests, and `taken` includes the whole block. */
export interface RequestWindowsTable {
  organization_id: string
  bucket:
    | 'requests_per_minute'
    | 'requests_per_day'
    | 'authorize_per_minute'
    | 'agent_reports_per_minute'
    | 'quota_changes_per_minute'
    | 'deliveries_per_minute'
  started_at: Date
  taken: number
}

/** A trigger on `memory` updates this table. */
export interface MemoryUsageTable {
  organization_id: string
  bytes: number
}

/** A row is deleted when a load ends. A high count means that loads probably crashed their workers. */
export interface CallStartsTable {
  run_id: string
  step_id: string
  item_index: number
  starts: Generated<number>
  started_at: Generated<Date>
}

/** One row: the task queue of organizations without workers of their own. API processes write it. */
export interface DefaultTaskQueueTable {
  single: Generated<boolean>
  queue: string
}

export interface MemoryTable {
  organization_id: string
  key: string
  value_sealed: Buffer | null
  /** Changes each time a value is written; null if there has been no value. */
  value_version: Generated<string | null>
  labels: Generated<string[]>
  updated_at: Generated<Date>
  updated_by: string
  /** When the value was deleted. The row keeps the labels for the next value of the same key. */
  deleted_at: Date | null
  /** A trigger sets a new revision each time a value is written. No two writes have the same revision. */
  revision: Generated<number>
}

export interface DataKeysTable {
  /** The first 16 hex digits of the key's SHA-256. */
  id: string
  /** The key with the highest generation seals new values. */
  generation: number
  wrapped: Buffer
  created_at: Generated<Date>
  /** When the service found that no stored value uses the key any more; null before that. */
  retired_at: Generated<Date | null>
}

export interface PlumbingTables {
  lanes: LanesTable
  idempotency_keys: IdempotencyKeysTable
  process_heartbeats: ProcessHeartbeatsTable
  memory: MemoryTable
  memory_usage: MemoryUsageTable
  request_windows: RequestWindowsTable
  data_keys: DataKeysTable
  call_starts: CallStartsTable
  default_task_queue: DefaultTaskQueueTable
}
