import type { ColumnType, Generated, GeneratedAlways } from 'kysely'
import type {
  ApprovalKind,
  ApprovalStatus,
  EffectState,
  RunStatus,
  StepStatus,
} from '../../contract/status.ts'
import type { RiskLevel, SideEffect, Verdict } from '../../policy/types.ts'

type Json<T> = ColumnType<T, string, string>
type DefaultJson<T> = ColumnType<T, string | undefined, string>

export interface Risk {
  level: RiskLevel
  reasons: readonly string[]
}
export interface StepError {
  code: string
  message: string
  /** Of an output that found no room: so much must be free before it is read again. Never shown. */
  bytes?: number
}
export interface LabelSource {
  label: string
  from: string[]
}

/** By input: each label that it carries, and where it comes from. An input without labels is not in it. */
export type InputLabels = Readonly<Record<string, readonly LabelSource[]>>

export interface RunsTable {
  id: string
  organization_id: string
  workflow_id: string
  workflow_version: number
  interpreter_version: number
  status: RunStatus
  /** One plain sentence; explains why a run has not started. */
  status_reason: string
  requested_by: string
  /** As it was when the run was accepted. */
  requester_email: string
  api_key_id: string | null
  idempotency_key: string | null
  /** JSON text as an older version kept it; null once it is sealed, or removed. */
  inputs: string | null
  /** JSON text, sealed; null once it is removed. */
  inputs_sealed: Buffer | null
  input_labels: DefaultJson<InputLabels>
  input_hash: string
  time_zone: string
  /** JSON text of the definition's `result`, resolved, as an older version kept it. */
  result: string | null
  /** The same, sealed. */
  result_sealed: Buffer | null
  risk: Json<Risk>
  event_seq: Generated<number>
  decision_seq: Generated<number>
  /** Bytes that its calls keep (governance/runs/room.ts). */
  stored_bytes: Generated<number>
  nodes_executed: Generated<number>
  nodes_failed: Generated<number>
  cancel_requested_at: Date | null
  cancel_requested_by: string | null
  created_at: Generated<Date>
  started_at: Date | null
  finished_at: Date | null
  /** When the reconciler last compared it with Temporal. */
  checked_at: Date | null
  data_removed_at: Generated<Date | null>
  /** Order of acceptance. */
  position: GeneratedAlways<number>
  /** Whether it may act; governance/quotas/slots.ts. */
  slot: 'queued' | 'waits' | 'taken' | null
  /** Currency units; numeric. */
  cost: ColumnType<string, number | undefined, number>
}

export interface RunStepsTable {
  run_id: string
  step_id: string
  position: number
  tool: string
  status: Generated<StepStatus>
  verdict: Verdict | null
  attempts: Generated<number>
  /** Items of a `for_each` step once expanded, else null. */
  item_count: number | null
  /** Labels of the step's output, once completed. */
  labels: Generated<string[]>
  error: ColumnType<StepError | null, string | null | undefined, string | null>
  started_at: Date | null
  finished_at: Date | null
}

export interface EffectsTable {
  run_id: string
  step_id: string
  /** -1 for a step without `for_each`. */
  item_index: number
  organization_id: string
  tool: string
  state: EffectState
  /** Fences attempts: only the newest may pass its point of no return. Counted here, not in Temporal. */
  attempt: Generated<number>
  /** Failures of the tool itself; deaths of a process and outages of the database use up no attempt. */
  failures: Generated<number>
  /** What a person chose for an unknown outcome, as yet unused: only `retry` is ever stored. */
  resolved_outcome: 'retry' | null
  /** The resolved parameters, sealed; the approval and every attempt use these very bytes. */
  params_sealed: Buffer | null
  params_hash: string | null
  labels: Generated<string[]>
  label_sources: DefaultJson<LabelSource[]>
  decision_id: string | null
  approval_id: string | null
  /** JSON text as an older version kept it. */
  output: string | null
  /** JSON text, sealed. */
  output_sealed: Buffer | null
  output_labels: Generated<string[]>
  error: ColumnType<StepError | null, string | null | undefined, string | null>
  intent_at: Date | null
  sent_at: Date | null
  finished_at: Date | null
  duration_ms: number | null
  /** It was asked for and could not go on without a slot of its run. */
  wants_slot: Generated<boolean>
}

export interface MatchedRule {
  id: string
  name: string
  verdict: Verdict
  shadow: boolean
}

/** Append-only. */
export interface DecisionsTable {
  id: string
  organization_id: string
  run_id: string | null
  /** Order within the run, from 1. */
  seq: number | null
  step_id: string | null
  item_index: number | null
  attempt: Generated<number>
  tool: string
  side_effect: SideEffect
  verdict: Verdict
  rule_id: string | null
  rule_name: string | null
  matched_rules: Json<MatchedRule[]>
  reason: string
  explanation: string
  labels: string[]
  label_sources: Json<LabelSource[]>
  params_hash: string | null
  approval_id: string | null
  policy_version: number
  decided_at: Date
  /** Of an agent's call: the session (ses_...), the client's id of the call, and who asked. */
  session_id: string | null
  tool_use_id: string | null
  requested_by: string | null
  /** What it counts towards `storage_mb`. */
  bytes: number | null
}

export interface ApprovalsTable {
  id: string
  organization_id: string
  kind: ApprovalKind
  status: ApprovalStatus
  run_id: string | null
  step_id: string | null
  item_index: number | null
  session_id: string | null
  workflow_id: string | null
  tool: string | null
  side_effect: SideEffect | null
  params_sealed: Buffer | null
  params_hash: string | null
  rule_id: string | null
  rule_name: string | null
  labels: string[]
  risk: Json<Risk>
  requested_by: string
  approver: 'admin' | 'owner'
  approvals_needed: number
  created_at: Date
  expires_at: Date | null
  decided_at: Date | null
  used_at: Date | null
  /** The effect (or run) that used it up: `run/step/item`. */
  used_by: string | null
  /** The approval that replaced it, when rules or labels had grown stricter by the time of use. */
  superseded_by: string | null
}

export interface ApprovalVotesTable {
  approval_id: string
  user_id: string
  decision: 'approve' | 'reject'
  comment: Generated<string>
  at: Date
}

export interface RunEventsTable {
  run_id: string
  seq: number
  type: string
  at: Date
  data: Json<Record<string, unknown>>
}
