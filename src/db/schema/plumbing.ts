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
  /** The API key of the request. Another API key of the same person may have fewer scopes (docs/decisions/0013). */
  api_key_id: string
  /**
   * The route's key and its decoded path parameters, not the path itself. So a closing slash or a prefix makes no
   * difference.
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
 * Counts the requests in the time window that began at `started_at`. A process leases a block of requests before it
 * uses them, and `taken` includes the whole block from then on.
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
 * Counts how often a worker began to load the values of a call. The row is deleted when a load ends. So a high count
 * means that loads did not end, probably because they crashed their workers.
 */
export interface CallStartsTable {
  run_id: string
  step_id: string
  item_index: number
  starts: Generated<number>
  started_at: Generated<Date>
}

/**
 * The task queue of all organizations that have no workers of their own. The table has one row, which each API process
 * writes when it starts.
 */
export interface DefaultTaskQueueTable {
  single: Generated<boolean>
  queue: string
}

/**
 * `key_probe` is a known text, sealed with the installation's key. Only a database from a version without data keys has
 * this row.
 */
export interface InstallationTable {
  singleton: Generated<boolean>
  key_probe: Buffer
}

export interface MemoryTable {
  organization_id: string
  key: string
  /** JSON text written by an older version; null once it is sealed. */
  value: string | null
  /** Sealed JSON text. */
  value_sealed: Buffer | null
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
