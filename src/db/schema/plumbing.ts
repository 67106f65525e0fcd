import type { ColumnType, Generated, GeneratedAlways } from 'kysely'

export interface OutboxTable {
  id: GeneratedAlways<number>
  kind: 'run.start' | 'run.wake' | 'run.cancel'
  run_id: string
  payload: ColumnType<Record<string, unknown>, string | undefined, string>
  created_at: Generated<Date>
  attempts: Generated<number>
  next_attempt_at: Generated<Date>
  last_error: string | null
}

export interface IdempotencyKeysTable {
  organization_id: string
  user_id: string
  /** The API key of the request, or the kind of its sign-in session. Another API key of the same person may have fewer scopes (docs/decisions/0013). */
  api_key_id: string
  /**
   * The key of the route and the decoded path parameters as text, or a hash of a long text. The path itself is not
   * used. So a closing slash or a prefix makes no difference.
   */
  route: string
  key: string
  body_hash: string
  locked_until: Date | null
  response_status: number | null
  response_body: string | null
  /** True once the change of the request is committed. The answer to the request is stored later. */
  acted: Generated<boolean>
  /** The result of the change as sealed JSON, until the answer is stored. */
  made: string | null
  created_at: Generated<Date>
}

export interface ProcessHeartbeatsTable {
  process_id: string
  kind: 'api' | 'worker'
  seen_at: Generated<Date>
}

/**
 * Each row counts the requests of one organization in the time window that began at `started_at`. A process leases a
 * block of requests before it uses the requests. `taken` includes the whole block from the lease on.
 */
export interface RequestWindowsTable {
  organization_id: string
  bucket:
    | 'requests_per_minute'
    | 'requests_per_day'
    | 'authorize_per_minute'
    | 'agent_reports_per_minute'
    | 'quota_changes_per_minute'
  started_at: Date
  taken: number
}

/** A trigger on `memory` updates this table. */
export interface MemoryUsageTable {
  organization_id: string
  bytes: number
}

/**
 * Each row counts how often workers began to load the values of one call. The row is deleted when a load ends. So a
 * high count means that several loads did not end. Probably these loads crashed their workers.
 */
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
  /** The value as sealed JSON text. */
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

/** Data keys, which seal (encrypt) stored values. */
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
  outbox: OutboxTable
  idempotency_keys: IdempotencyKeysTable
  process_heartbeats: ProcessHeartbeatsTable
  memory: MemoryTable
  memory_usage: MemoryUsageTable
  request_windows: RequestWindowsTable
  data_keys: DataKeysTable
  call_starts: CallStartsTable
  default_task_queue: DefaultTaskQueueTable
}
