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
  /** The key of the request: another key of the same person may have fewer scopes (docs/decisions/0013). */
  api_key_id: string
  /** The route's key and its decoded path parameters, so that a closing slash or a prefix makes no difference. */
  route: string
  key: string
  body_hash: string
  locked_until: Date | null
  response_status: number | null
  response_body: string | null
  /** The change has committed, whether or not its answer was stored. */
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

/** Requests in the window that began at `started_at`. Processes lease the window's requests in blocks. */
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

/** Updated by a trigger on `memory`. */
export interface MemoryUsageTable {
  organization_id: string
  bytes: number
}

/** Loads of calls that have started and not yet ended. */
export interface CallStartsTable {
  run_id: string
  step_id: string
  item_index: number
  starts: Generated<number>
  started_at: Generated<Date>
}

/** The task queue for organizations without their own workers. One row, written when an API process starts. */
export interface DefaultTaskQueueTable {
  single: Generated<boolean>
  queue: string
}

/** Only databases that are older than data keys have this row: a known text, sealed with the installation's key. */
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
  /** When the value was deleted; its labels stay for the next value of the key. */
  deleted_at: Date | null
  /** A trigger sets a new value at each write. No two writes have the same value. */
  revision: Generated<number>
}

/** Keys that seal values. */
export interface DataKeysTable {
  /** The first 16 hex digits of the key's SHA-256. */
  id: string
  /** The key with the highest generation seals new values. */
  generation: number
  wrapped: Buffer
  created_at: Generated<Date>
  /** When the last value that used the key was gone. */
  retired_at: Generated<Date | null>
}
