import type { ColumnType, Generated, GeneratedAlways } from 'kysely'
import type {
  ApprovalKind,
  ApprovalStatus,
  EffectState,
  RunStatus,
  StepStatus,
} from '../../contract/status.ts'
import type { Fault } from '../../contract/tool-faults.ts'
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
  /** Errors of older versions have neither `fault` nor `retryable`. */
  fault?: Fault
  /** Whether the same call could succeed later. */
  retryable?: boolean
  /** For an output that did not fit in memory: bytes that must be free before it is read again. Never shown. */
  bytes?: number
}
export interface PastOutcome {
  decision_id: string
  outcome: 'failed' | 'unknown_outcome'
}
export interface LabelSource {
  label: string
  from: string[]
}

/** By input: its labels and their sources. An input without labels is left out. */
export type InputLabels = Readonly<Record<string, readonly LabelSource[]>>

export interface RunsTable {
  id: string
  organization_id: string
  workflow_id: string
  workflow_version: number
  interpreter_version: number
  status: RunStatus
  /** One sentence that explains the status, e.g. why a run has not started. */
  status_reason: string
  requested_by: string
  /** The requester's mail address when the run was accepted. */
  requester_email: string
  api_key_id: string | null
  /** The HTTP request that started the run; null for runs accepted by an older version. */
  request_id: string | null
  idempotency_key: string | null
  /** JSON text written by an older version; null once it is sealed or removed. */
  inputs: string | null
  /** Sealed JSON text; null once it is removed. */
  inputs_sealed: Buffer | null
  input_labels: DefaultJson<InputLabels>
  input_hash: string
  time_zone: string
  /** The resolved `result` of the definition as JSON text, written by an older version. */
  result: string | null
  /** The resolved `result` as sealed JSON text. */
  result_sealed: Buffer | null
  risk: Json<Risk>
  event_seq: Generated<number>
  decision_seq: Generated<number>
  /** Stored bytes of its calls. */
  stored_bytes: Generated<number>
  nodes_executed: Generated<number>
  nodes_failed: Generated<number>
  cancel_requested_at: Date | null
  cancel_requested_by: string | null
  /** The reason that the person who cancelled the run gave; null if they gave none. */
  cancel_reason: Generated<string | null>
  created_at: Generated<Date>
  started_at: Date | null
  finished_at: Date | null
  /** When the reconciler last compared the run with Temporal. */
  checked_at: Date | null
  data_removed_at: Generated<Date | null>
  /** Order of acceptance. */
  position: GeneratedAlways<number>
  /** `queued`: the run has no workflow yet. `waits`: its workflow waits for a slot. `taken`: the run may act. */
  slot: 'queued' | 'waits' | 'taken' | null
  /** In units of the currency; a PostgreSQL `numeric`. */
  cost: ColumnType<string, number | undefined, number>
}

export interface RunStepsTable {
  run_id: string
  step_id: string
  position: number
  tool: string
  /** The definition's `summary`. */
  summary: Generated<string | null>
  status: Generated<StepStatus>
  verdict: Verdict | null
  attempts: Generated<number>
  /** Number of items of a `for_each` step once it is expanded, else null. */
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
  /** Number of the newest attempt, the only one that may pass its point of no return. Not counted by Temporal. */
  attempt: Generated<number>
  /** Failures of the tool itself. Dead processes and database outages do not count. */
  failures: Generated<number>
  /** A person's choice for an unknown outcome, until the choice is used. Only `retry` is ever stored. */
  resolved_outcome: 'retry' | null
  /** The resolved parameters, sealed. The approval and every attempt use exactly these parameters. */
  params_sealed: Buffer | null
  params_hash: string | null
  labels: Generated<string[]>
  label_sources: DefaultJson<LabelSource[]>
  decision_id: string | null
  approval_id: string | null
  /** JSON text written by an older version. */
  output: string | null
  /** Sealed JSON text. */
  output_sealed: Buffer | null
  output_labels: Generated<string[]>
  error: ColumnType<StepError | null, string | null | undefined, string | null>
  /** Values that belong to the error (JSON text), sealed. */
  error_detail_sealed: Buffer | null
  /** The newest of the earlier attempts that ended, with the decisions that allowed them. */
  past_outcomes: DefaultJson<readonly PastOutcome[]>
  intent_at: Date | null
  sent_at: Date | null
  /** The connection and its address through which the call was sent; null: unknown, or nothing was sent. */
  sent_with: Generated<string | null>
  finished_at: Date | null
  duration_ms: number | null
  /** Whether the call is waiting for a slot of its run. */
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
  /** For an agent's call: the session (ses_...), the client's id of the call, and the requester. */
  session_id: string | null
  tool_use_id: string | null
  requested_by: string | null
  /** Bytes that count towards `storage_mb`. */
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
  /** The call (or run) that used up the approval: `run/step/item`. */
  used_by: string | null
  /** The newer approval that replaced this one, because this one did not cover its call any more. */
  superseded_by: string | null
  /** The state that the call would change, as it was when the approval was created: JSON text, sealed. */
  state_sealed: Buffer | null
  /** The approval that this one replaced. `held_again` is the reason. */
  supersedes_id: string | null
  held_again: string | null
  /** How often the state that the approvers saw changed before the call was made. */
  state_changes: Generated<number>
}

export interface ApprovalVotesTable {
  approval_id: string
  user_id: string
  decision: 'approve' | 'reject'
  comment: Generated<string>
  changes_requested: Generated<boolean>
  at: Date
}

export interface RunEventsTable {
  run_id: string
  seq: number
  type: string
  at: Date
  data: Json<Record<string, unknown>>
}
