import type { Generated, GeneratedAlways } from 'kysely'

export interface ChainHeadTable {
  organization_id: string
  seq: Generated<number>
  hash: Generated<string>
  /** The code of the newest entry (audit/entry-macs.ts). Is null for an empty chain. */
  mac: string | null
  /** Increases when a rule, label rule or setting is saved. Every audit entry contains this version. */
  policy_version: Generated<number>
  frozen: string | null
  /** Stored bytes and pending approvals, without the rows of `storage_moves` yet. */
  stored_bytes: Generated<number>
  pending_approvals: Generated<number>
  storage_counted_at: Generated<Date>
}

/** For transactions without a lock on `chain_head`. Housekeeping adds the changes to the counters. */
export interface StorageMovesTable {
  id: GeneratedAlways<number>
  organization_id: string
  bytes: number
  pending: number
}

/** Entries with this type, person and status in a segment of a chain. An empty text means any value. */
export interface AuditCountsTable {
  organization_id: string
  event_type: string
  user_id: string
  status: string
  segment: number
  entries: number
}

export interface CheckpointFoldersTable {
  organization_id: string
  folder_id: string
  since: Generated<Date>
}

/** The application writes only `canonical`, `hash` and `mac`. PostgreSQL generates the other columns from `canonical`. */
export interface AuditEventsTable {
  canonical: string
  hash: string
  mac: string | null
  organization_id: GeneratedAlways<string>
  seq: GeneratedAlways<number>
  event_type: GeneratedAlways<string>
  id: GeneratedAlways<string>
  timestamp: GeneratedAlways<string>
  actor: GeneratedAlways<{ type: string; id: string }>
  user_id: GeneratedAlways<string | null>
  workflow_id: GeneratedAlways<string | null>
  run_id: GeneratedAlways<string | null>
  ip_address: GeneratedAlways<string | null>
  action: GeneratedAlways<string>
  status: GeneratedAlways<string>
  duration_ms: GeneratedAlways<number | null>
  metadata: GeneratedAlways<Record<string, unknown>>
  prev_hash: GeneratedAlways<string>
}

export interface AuditTables {
  chain_head: ChainHeadTable
  audit_events: AuditEventsTable
  audit_counts: AuditCountsTable
  storage_moves: StorageMovesTable
  checkpoint_folders: CheckpointFoldersTable
}
