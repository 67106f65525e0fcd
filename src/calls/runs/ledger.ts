import type { EffectState, OnRepeat, RunStatus, StepStatus } from '../../contract/status.ts'
import type { CallRevision, LabelSource, PastOutcome, Risk, StepError } from '../../db/schema/runs.ts'
import type { Role, Verdict } from '../../policy/types.ts'
import type { Slot } from '../../governance/limits/slots.ts'
import type { ApprovalRecord, NewApproval, NewDecision } from '../../governance/approvals/records.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'

export const stepKey = (runId: string, stepId: string): string => `${runId}/${stepId}`

export interface RunState {
  readonly id: string
  readonly workflow_id: string
  readonly workflow_version: number
  readonly requested_by: string
  readonly authors: readonly string[]
  readonly risk: Risk
  readonly cancel_requested_at: string | null
  readonly finished_at: string | null
  /** Null: the run was not made again from another one. */
  readonly on_repeat: OnRepeat | null
  status: RunStatus
  status_reason: string
  decision_seq: number
  /** These are the bytes of the run's calls (storage-limit.ts). */
  stored_bytes: number
  nodes_executed: number
  nodes_failed: number
  started_at: string | null
  /** Calls that are held or have an unknown outcome. */
  waiting: number
  /** Null if the run needs no slot (limits/slots.ts). */
  slot: Slot | null
  /** This is reserved or reported by the calls, in currency units. */
  cost: number
  /** Calls that are not in this ledger: those in progress, and (`others_wanting`) those that want a slot. */
  readonly others_under_way: number
  readonly others_wanting: number
}

export interface EffectRecord {
  readonly run_id: string
  readonly step_id: string
  readonly item_index: number
  /** Null: the step calls no tool, and this is the row of its wait or its values (no-call.ts). */
  readonly tool: string | null
  state: EffectState
  attempt: number
  /** How often the tool's body began. */
  bodies: number
  /** `bodies` has the body of the present attempt. */
  body_counted: boolean
  failures: number
  resolved_outcome: 'retry' | null
  params_hash: string | null
  labels: string[]
  label_sources: LabelSource[]
  decision_id: string | null
  approval_id: string | null
  output_labels: string[]
  error: StepError | null
  past_outcomes: readonly PastOutcome[]
  intent_at: string | null
  sent_at: string | null
  /** Id and address of the connection. Null if they are unknown, or if nothing was sent. */
  sent_with: string | null
  finished_at: string | null
  duration_ms: number | null
  /** The held call may run as soon as its run has a slot. */
  wants_slot: boolean
  /** When a step that waits goes on. Null if no wait has begun. */
  until: string | null
  /** The run whose outcome the call took without being made. */
  readonly reused_from: string | null
  /** The call of an earlier run of the chain with the same parameters, as `RUN/STEP/ITEM`. */
  readonly repeats: string | null
  /** Null: nobody has edited its parameters. Only revise.ts writes it. */
  readonly revision: CallRevision | null
  /** Set only if this transaction stores an output. `loadLedger` never reads it. */
  output?: Buffer | undefined
  /**
   * Null if there are no values, absent if this transaction does not set the error. `loadLedger` never reads
   * it.
   */
  errorDetail?: Buffer | null | undefined
  /** Set only if this transaction creates the row. */
  sealed?: Buffer | null | undefined
}

/** Throws for the row of a step without a tool, which must never get to code about calls. */
export function toolOf({ tool }: Pick<EffectRecord, 'tool'>): string {
  if (tool === null) throw new Error('the step has no tool')
  return tool
}

/** The people whose values the call has. */
export const typists = (revision: CallRevision | null): string[] => [
  ...new Set(Object.values(revision?.typed ?? {})),
]

export interface StepRecord {
  readonly run_id: string
  readonly step_id: string
  readonly kind: string
  readonly item_count: number | null
  readonly author_roles: readonly Role[]
  status: StepStatus
  verdict: Verdict | null
  attempts: number
  labels: string[]
  error: StepError | null
  started_at: string | null
  finished_at: string | null
}

/**
 * One statement reads these rows under the chain lock, and another writes them. An operation changes records
 * in place and marks them dirty, so later operations of the batch see its changes.
 */
export class Ledger {
  readonly runs = new Map<string, RunState>()
  readonly effects = new Map<string, EffectRecord>()
  readonly steps = new Map<string, StepRecord>()
  readonly approvals = new Map<string, ApprovalRecord>()
  readonly roles = new Map<string, Role>()
  /** Ids of the groups of voters. */
  readonly groups = new Map<string, readonly string[]>()
  /** Members whose mail address is confirmed. */
  readonly confirmed = new Set<string>()
  readonly dirtyRuns = new Set<RunState>()
  readonly dirtyEffects = new Set<EffectRecord>()
  readonly dirtySteps = new Set<StepRecord>()
  readonly dirtyApprovals = new Set<ApprovalRecord>()
  readonly newEffects: EffectRecord[] = []
  readonly newApprovals: NewApproval[] = []
  readonly newDecisions: NewDecision[] = []
  /** This is read only if a run of the ledger has no slot. */
  slots = { taken: 0, waiting: 0 }

  step(runId: string, stepId: string): StepRecord | undefined {
    return this.steps.get(stepKey(runId, stepId))
  }

  /** The present roles of the requester and of everybody who typed a value of the call, and those of the step's authors. */
  rolesFor(
    { requested_by }: RunState,
    { run_id, step_id, revision }: Pick<EffectRecord, 'run_id' | 'step_id' | 'revision'>,
  ): Role[] {
    const people = [requested_by, ...typists(revision)]
    const authors = this.step(run_id, step_id)?.author_roles ?? []
    return [...people.flatMap((person) => this.roles.get(person) ?? []), ...authors]
  }

  /** By id, the present roles of those of these people who are members. */
  rolesOf(people: readonly string[]): Record<string, Role> {
    return Object.fromEntries([...this.roles].filter(([person]) => people.includes(person)))
  }

  /** The caller must then set the row's state. */
  addEffect(record: EffectRecord): EffectRecord {
    this.newEffects.push(record)
    this.effects.set(`${record.run_id}/${record.step_id}/${record.item_index}`, record)
    return record
  }

  addApproval(approval: NewApproval): ApprovalRecord {
    this.newApprovals.push(approval)
    this.approvals.set(approval.record.id, approval.record)
    return approval.record
  }

  /** New records are written anyway. */
  touchEffect(record: EffectRecord): void {
    if (!this.newEffects.includes(record)) this.dirtyEffects.add(record)
  }
}

/** The transaction `tx` holds the organization's lock. `ledger` is shared by its operations. */
export interface LockedRun {
  readonly tx: ChainTx
  readonly ledger: Ledger
  readonly run: RunState
}

export interface LockedCall extends LockedRun {
  readonly effect: EffectRecord
}
