import type { Generated, GeneratedAlways } from 'kysely'

export interface ChainHeadTable {
  organization_id: string
  seq: Generated<number>
  hash: Generated<string>
  /** Moves when a rule, label rule or setting is saved; every audit entry carries it. */
  policy_version: Generated<number>
  /** The reason the organization is frozen, else null. */
  frozen: string | null
  /** Bytes kept for the organization, and its pending approvals, but for what `storage_moves` holds. */
  stored_bytes: Generated<number>
  pending_approvals: Generated<number>
  /** When all rows were last counted anew (governance/quotas/storage-counters.ts). */
  storage_counted_at: Generated<Date>
}

/** Moves of those two by transactions that do not hold the row of `chain_head`. */
export interface StorageMovesTable {
  id: GeneratedAlways<number>
  organization_id: string
  bytes: number
  pending: number
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
