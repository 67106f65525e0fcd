import type { ColumnType, Generated, GeneratedAlways } from 'kysely'
import type {
  ApprovalKind,
  ApprovalStatus,
  EffectState,
  RunStatus,
  StepStatus,
  OnRepeat,
} from '../../contract/status.ts'
import type { Fault } from '../../contract/tool-faults.ts'
import type { HeldSeat } from '../../policy/seats.ts'
import type { RiskLevel, Role, SideEffect, Verdict } from '../../policy/types.ts'

type Json<T> = ColumnType<T, string, string>
type DefaultJson<T> = ColumnType<T, string | undefined, string>

export interface Risk {
  level: RiskLevel
  reasons: readonly string[]
}
export interface StepError {
  code: string
  message: string
  /** Is absent if the code is of no known fault. */
  fault?: Fault
  retryable?: boolean
  /** This many bytes must be free before an output that did not fit is read again. People do not see it. */
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

/** By the name of the input, with their sources. An input without labels is left out. */
export type InputLabels = Readonly<Record<string, readonly LabelSource[]>>

export interface RunsTable {
  id: string
  organization_id: string
  workflow_id: string
  workflow_version: number
  interpreter_version: number
  status: RunStatus
  status_reason: string
  requested_by: string
  /** From the time when the run was accepted. */
  requester_email: string
  api_key_id: string | null
  /** Null if no HTTP request started the run. */
  request_id: string | null
  idempotency_key: string | null
  /** Sealed JSON text. Is null once the inputs are removed. */
  inputs_sealed: Buffer | null
  input_labels: DefaultJson<InputLabels>
  input_hash: string
  time_zone: string
  result_sealed: Buffer | null
  risk: Json<Risk>
  event_seq: Generated<number>
  decision_seq: Generated<number>
  stored_bytes: Generated<number>
  nodes_executed: Generated<number>
  nodes_failed: Generated<number>
  cancel_requested_at: Date | null
  cancel_requested_by: string | null
  cancel_reason: Generated<string | null>
  created_at: Generated<Date>
  started_at: Date | null
  finished_at: Date | null
  checked_at: Date | null
  data_removed_at: Generated<Date | null>
  /** The trigger that polls with it. null: not hidden. */
  poll_of: Generated<string | null>
  /** The order in which runs were accepted. */
  position: GeneratedAlways<number>
  /** `queued`: not in Temporal yet. `waits`: for a slot. `taken`: may make calls. null: needs no slot. */
  slot: 'queued' | 'waits' | 'taken' | null
  authors: Generated<string[]>
  /** Ids of groups whose members see the values of the run. */
  readers: Generated<string[]>
  /** By another person, and new to the requester at this run; null if there was none. */
  changed_in_version: Generated<number | null>
  /** The run from which this one was made again; null: from none. */
  rerun_of: Generated<string | null>
  /** The first run of its chain (src/calls/runs/earlier.ts). Null if `rerun_of` is. */
  chain: Generated<string | null>
  /** Ids of steps that take no outcome of an earlier run. */
  steps_anew: Generated<string[]>
  on_repeat: Generated<OnRepeat | null>
  /** Whether calls of earlier runs with an unknown outcome count as made. Null if there are none. */
  unknown_happened: Generated<boolean | null>
  /** The cost in units of the currency. Reading it returns the text of a PostgreSQL `numeric`. */
  cost: ColumnType<string, number | undefined, number>
}

export interface RunStepsTable {
  run_id: string
  step_id: string
  position: number
  /** The name of the step's kind (src/steps). */
  kind: Generated<string>
  /** Null: the step calls no tool. */
  tool: string | null
  summary: Generated<string | null>
  status: Generated<StepStatus>
  verdict: Verdict | null
  attempts: Generated<number>
  /** Is null until the step is expanded, and without `for_each`. */
  item_count: number | null
  /** The roles that the step's authors had when they saved it. */
  author_roles: Generated<Role[]>
  /** The labels of the output. Is empty until the step has completed. */
  labels: Generated<string[]>
  error: ColumnType<StepError | null, string | null | undefined, string | null>
  started_at: Date | null
  finished_at: Date | null
}

export interface EffectsTable {
  run_id: string
  step_id: string
  /** Is -1 for a step without `for_each`. */
  item_index: number
  organization_id: string
  /** Null: the step calls no tool, and this is the row of its wait. */
  tool: string | null
  state: EffectState
  /** The newest attempt, which alone may send the call. Temporal's attempts have other numbers. */
  attempt: Generated<number>
  /** `attempt` can be higher, because some attempts do not begin the tool's body (docs/decisions/0274). */
  bodies: Generated<number>
  body_counted: Generated<boolean>
  /** In the tool. Dead processes and database outages do not count. */
  failures: Generated<number>
  /** A person wants a call with an unknown outcome again. null when that attempt begins. */
  resolved_outcome: 'retry' | null
  /** Sealed. The approval and every attempt use exactly these parameters. */
  params_sealed: Buffer | null
  params_hash: string | null
  labels: Generated<string[]>
  label_sources: DefaultJson<LabelSource[]>
  decision_id: string | null
  approval_id: string | null
  output_sealed: Buffer | null
  output_labels: Generated<string[]>
  error: ColumnType<StepError | null, string | null | undefined, string | null>
  /** Sealed JSON text of values, for example the recipients that a mail server refused. */
  error_detail_sealed: Buffer | null
  /** Earlier attempts, each with the decision that allowed it. Only the newest are stored. */
  past_outcomes: DefaultJson<readonly PastOutcome[]>
  intent_at: Date | null
  sent_at: Date | null
  /** Id and address of the connection; null if it is unknown or nothing was sent. */
  sent_with: Generated<string | null>
  finished_at: Date | null
  duration_ms: number | null
  wants_slot: Generated<boolean>
  /** Is null if the step waits for no time. */
  until: Generated<Date | null>
  /** The run whose outcome the call took without being made; null: none. */
  reused_from: Generated<string | null>
  /** The call of an earlier run with the same parameters, as `RUN/STEP/ITEM`. Null: there is none. */
  repeats: Generated<string | null>
  /** Null: nobody has edited its parameters. */
  revision: ColumnType<CallRevision | null, string | null | undefined, string | null>
}

/** What people did to the parameters of a held call. */
export interface CallRevision {
  readonly count: number
  /** The hash of the parameters as the workflow has written them: a run that is made again compares with it. */
  readonly written: string
  /** By the name of the parameter: the person who typed its value. */
  readonly typed: Readonly<Record<string, string>>
  /** What was typed has these labels, and so has the call. */
  readonly labels: readonly string[]
  /** The mail address of the person who edited last. */
  readonly by: string
  /** The approver who edited last. Null: the requester did, so nobody must confirm it. */
  readonly editor: { readonly id: string; readonly for: string | null } | null
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
  /** Within its run, from 1. */
  seq: number | null
  step_id: string | null
  item_index: number | null
  attempt: Generated<number>
  tool: string
  side_effect: SideEffect
  /** The host to which the call goes; null if it stays here, or if an agent makes it. */
  destination: string | null
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
  /** These four fields are only set for an agent's call. `tool_use_id` is the client's id of the call. */
  session_id: string | null
  tool_use_id: string | null
  requested_by: string | null
  /** The hash of a shell's arguments without its folder; null if `params_hash` covers no folder. */
  input_hash?: string | null
  /** Bytes of the decision that count towards `storage_mb`. */
  bytes: number
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
  destination: string | null
  params_sealed: Buffer | null
  params_hash: string | null
  rule_id: string | null
  rule_name: string | null
  labels: string[]
  risk: Json<Risk>
  requested_by: string
  /** The authors of the run's version. Their own votes do not count (requirement.ts). */
  authors: Generated<string[]>
  /** null if only groups decide. */
  approver: 'admin' | 'owner' | null
  approvals_needed: number
  /** null if `approver` and `approvals_needed` say all. */
  seats: ColumnType<readonly HeldSeat[] | null, string | null | undefined, string | null>
  created_at: Date
  /** null: nobody is reminded. */
  remind_at: Generated<Date | null>
  expires_at: Date | null
  decided_at: Date | null
  used_at: Date | null
  /** `run/step/item`, `session/tool use`, `session/call N` without a client's id, or the id of a run. */
  used_by: string | null
  /** The newer approval that replaced this one. This approval did not cover its call any more. */
  superseded_by: string | null
  /** Sealed JSON text, read before the approval was created. */
  state_sealed: Buffer | null
  /** The earlier approval that this one replaced. `held_again` is the reason for the replacement. */
  supersedes_id: string | null
  held_again: string | null
  /** What a change would do, or what a run asks, in one sentence. Null for every other kind. */
  title: Generated<string | null>
  /** Who answered, or edited what it covers, and the absent person by whose right. */
  answered_by: Generated<string | null>
  answered_for: Generated<string | null>
  /** How often the state was no longer what its approvers saw. Each new approval continues the count. */
  state_changes: Generated<number>
  /** Null: nobody edited what it covers. */
  revision: ColumnType<ApprovalRevision | null, string | null | undefined, string | null>
  typed_by: Generated<string[]>
  /** Names of the parameters that an approver may edit. */
  may_edit: Generated<string[]>
  /** Ids of what a change would change. Null for every other kind, and for changes from before it was kept. */
  touches: Generated<string[] | null>
  /** The tool and the title, in lower case, for the search. */
  sought: ColumnType<string, never, never>
}

/** How the parameters were edited that an approval covers. `answered_by` says by whom. */
export interface ApprovalRevision {
  readonly params: readonly string[]
  readonly comment: string
}

export interface ApprovalVotesTable {
  approval_id: string
  user_id: string
  /** The absent person by whose right they voted; null: by their own. */
  for_user: Generated<string | null>
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

/** Which ended runs are made again. */
export interface RerunFilter {
  readonly run_ids?: readonly string[] | undefined
  readonly status?: RunStatus | undefined
  readonly workflow_id?: string | undefined
  readonly requested_by?: string | undefined
  /** A call of this tool did not complete. */
  readonly tool?: string | undefined
  readonly since?: string | undefined
  readonly until?: string | undefined
}

export interface RerunOptions {
  readonly from: 'failed' | 'start'
  readonly version: 'same' | 'latest'
  readonly on_repeat: OnRepeat
}

export interface RerunsTable {
  id: string
  organization_id: string
  requested_by: string
  api_key_id: string | null
  with_factor: boolean
  bound: boolean
  filter: ColumnType<RerunFilter, string, never>
  options: ColumnType<RerunOptions, string, never>
  reason: string | null
  created_at: Date
  expires_at: Date
  ended_at: Date | null
}

export interface RerunItemsTable {
  rerun_id: string
  organization_id: string
  position: number
  run_id: string
  /** The version of its workflow, as of the request. */
  version: number
  state: 'waiting' | 'started' | 'refused' | 'cancelled'
  new_run_id: string | null
  reason: string | null
}

/** What a person said about a call whose outcome nobody knew. */
export interface ResolutionsTable {
  run_id: string
  step_id: string
  item_index: number
  attempt: number
  organization_id: string
  outcome: 'retry' | 'done' | 'fail'
  resolved_by: string
  email: string
  at: Date
}

export interface RunsTables {
  runs: RunsTable
  run_steps: RunStepsTable
  effects: EffectsTable
  decisions: DecisionsTable
  approvals: ApprovalsTable
  approval_votes: ApprovalVotesTable
  run_events: RunEventsTable
  reruns: RerunsTable
  rerun_items: RerunItemsTable
  resolutions: ResolutionsTable
}
