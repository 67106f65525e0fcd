import type { Restrictions } from '../../policy/tool-limits.ts'
import type { ColumnType, Generated } from 'kysely'
import type { LabelSource } from './runs.ts'
import type { ManagedColumn } from './policy.ts'

export const sessionStatuses = ['live', 'ended', 'revoked'] as const
export type SessionStatus = (typeof sessionStatuses)[number]

export interface AgentSessionsTable {
  id: string
  organization_id: string
  user_id: string
  /** The client's own id, unique per person. */
  session_id: string
  /** The decisions, receipts and events of the session contain this id in place of a run's id. */
  run_id: string
  agent_name: string
  agent_kind: string
  status: SessionStatus
  labels: Generated<string[]>
  label_sources: ColumnType<LabelSource[], string | undefined, string>
  unknown_tools: Generated<string[]>
  /** Files of the session that a later command may run (src/calls/agents/written.ts). */
  written: Generated<string[]>
  /** Bytes of `labels`, `label_sources`, `unknown_tools` and `written`. They count towards the limit `storage_mb`. */
  label_bytes: Generated<number>
  decision_seq: Generated<number>
  allowed: Generated<number>
  held: Generated<number>
  denied: Generated<number>
  /** Finished calls that no decision had allowed. */
  unapproved: Generated<number>
  started_at: Date
  last_seen_at: Date
  ended_at: Date | null
  revoked_by: string | null
  revoke_reason: string | null
}

/** Append-only. */
export interface AgentObservationsTable {
  decision_id: string
  outcome: 'ok' | 'error' | null
  at: Generated<Date>
}

/** Inputs of the decisions of one transaction, for backtests. */
export interface DecisionInputsTable {
  /** The first of its decisions. */
  id: string
  organization_id: string
  decision_ids: string[]
  sealed: Buffer
  bytes: number
  decided_at: Date
}

export interface ToolPoliciesTable {
  organization_id: string
  tool_name: string
  /** A role, or the name of a group. An empty text means the whole organization. */
  role: string
  allowed: boolean | null
  restrictions: ColumnType<Restrictions, string, string>
  created_by: string
  created_at: Generated<Date>
  updated_at: Generated<Date>
  managed_by: ManagedColumn
}

export interface AgentsTables {
  agent_sessions: AgentSessionsTable
  agent_observations: AgentObservationsTable
  decision_inputs: DecisionInputsTable
  tool_policies: ToolPoliciesTable
}
