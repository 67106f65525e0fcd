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
  /** The one that asked: another key of the same person may be narrower (docs/decisions/0013). */
  api_key_id: string
  /** The route's key and its decoded path parameters: a closing slash or a prefix makes no other route. */
  route: string
  key: string
  body_hash: string
  locked_until: Date | null
  response_status: number | null
  response_body: string | null
  /** The act has committed, whatever became of its answer. */
  acted: Generated<boolean>
  /** What the act made, sealed JSON; only until the answer is there. */
  made: string | null
  created_at: Generated<Date>
}

export interface ProcessHeartbeatsTable {
  process_id: string
  kind: 'api' | 'worker'
  seen_at: Generated<Date>
}

/** Requests of the window that began at `started_at`, handed out to processes in blocks. */
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

/** Kept by a trigger on `memory`. */
export interface MemoryUsageTable {
  organization_id: string
  bytes: number
}

/** Loads of calls that have begun and not come to an end (governance/runs/load-starts.ts). */
export interface CallStartsTable {
  run_id: string
  step_id: string
  item_index: number
  starts: Generated<number>
  started_at: Generated<Date>
}

/** One row, once an API process has started: where runs start of organizations without workers of their own. */
export interface DefaultTaskQueueTable {
  single: Generated<boolean>
  queue: string
}

/** One row, in databases that were made before there were data keys: a known text, sealed with the installation's key. */
export interface InstallationTable {
  singleton: Generated<boolean>
  key_probe: Buffer
}

export interface MemoryTable {
  organization_id: string
  key: string
  /** JSON text as an older version kept it; null once it is sealed. */
  value: string | null
  /** JSON text, sealed. */
  value_sealed: Buffer | null
  labels: Generated<string[]>
  updated_at: Generated<Date>
  updated_by: string
  /** The value is gone and its labels are kept for the next one under the key. */
  deleted_at: Date | null
}

/** Keys that seal values (governance/sealing/keyring.ts). */
export interface DataKeysTable {
  /** 16 hex digits: how the key's SHA-256 begins. */
  id: string
  /** The highest one seals new values. */
  generation: number
  wrapped: Buffer
  created_at: Generated<Date>
  /** When no value named it any more. */
  retired_at: Generated<Date | null>
}
