import type { Generated, GeneratedAlways } from 'kysely'

export interface ChainHeadTable {
  organization_id: string
  seq: Generated<number>
  hash: Generated<string>
  /** Increases when a rule, label rule or setting is saved. Every audit entry contains this version. */
  policy_version: Generated<number>
  /** Why the organization is frozen, or null. */
  frozen: string | null
  /** Stored bytes and pending approvals of the organization, without the rows of `storage_moves`. */
  stored_bytes: Generated<number>
  pending_approvals: Generated<number>
  /** When the two counters were last computed from all rows. */
  storage_counted_at: Generated<Date>
}

/** Changes of `stored_bytes` and `pending_approvals` by transactions that do not hold the row of `chain_head`. */
export interface StorageMovesTable {
  id: GeneratedAlways<number>
  organization_id: string
  bytes: number
  pending: number
}

/** The number of entries in a counted segment of a chain; '' means any type, person or status. */
export interface AuditCountsTable {
  organization_id: string
  event_type: string
  user_id: string
  status: string
  segment: number
  entries: number
}

/** Only `canonical` and `hash` are written; the rest is generated from `canonical`. */
export interface AuditEventsTable {
  canonical: string
  hash: string
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
