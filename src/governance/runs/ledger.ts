import { sql } from 'kysely'
import type { EffectState, RunStatus, StepStatus } from '../../contract/status.ts'
import type { LabelSource, Risk, StepError } from '../../db/schema/runs.ts'
import type { Role, Verdict } from '../../policy/types.ts'
import type { ChainReader, ChainTx } from '../chain-tx.ts'
import type { BatchKind } from '../combiner.ts'
import type { CommitPoint } from '../commit-points.ts'
import type { Slot } from '../quotas/slots.ts'
import { approvalColumns, type ApprovalRecord, type NewApproval, type NewDecision } from '../records.ts'
import { writeLedger } from './ledger-write.ts'

/** Names one call of a run; `itemIndex` is -1 for a step without `for_each`. */
export interface EffectKey {
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number
}
export const effectId = (key: EffectKey): string => `${key.runId}/${key.stepId}/${key.itemIndex}`
const stepKey = (runId: string, stepId: string): string => `${runId}/${stepId}`

export interface RunState {
  readonly id: string
  readonly workflow_id: string
  readonly workflow_version: number
  readonly requested_by: string
  readonly risk: Risk
  readonly cancel_requested_at: string | null
  readonly finished_at: string | null
  status: RunStatus
  status_reason: string
  decision_seq: number
  /** What its calls keep (room.ts). */
  stored_bytes: number
  nodes_executed: number
  nodes_failed: number
  started_at: string | null
  /** Calls of the run that wait for a person: held, or of unknown outcome. */
  waiting: number
  /** quotas/slots.ts */
  slot: Slot | null
  /** Currency units, as its calls have reported them. */
  cost: number
  /** Calls beside those of the ledger that are under way, and that wait for a slot (slot-moves.ts). */
  readonly others_under_way: number
  readonly others_wanting: number
}

export interface EffectRecord {
  readonly run_id: string
  readonly step_id: string
  readonly item_index: number
  readonly tool: string
  state: EffectState
  attempt: number
  failures: number
  resolved_outcome: 'retry' | null
  params_hash: string | null
  labels: string[]
  label_sources: LabelSource[]
  decision_id: string | null
  approval_id: string | null
  output_labels: string[]
  error: StepError | null
  intent_at: string | null
  sent_at: string | null
  finished_at: string | null
  duration_ms: number | null
  /** Held, asked for, and without a slot of its run to go on. */
  wants_slot: boolean
  /** Set when this transaction stores an output; never read back. */
  output?: Buffer | undefined
  /** Set when this transaction creates the row. */
  sealed?: Buffer | null | undefined
}

export interface StepRecord {
  readonly run_id: string
  readonly step_id: string
  readonly item_count: number | null
  status: StepStatus
  verdict: Verdict | null
  attempts: number
  labels: string[]
  error: StepError | null
  started_at: string | null
  finished_at: string | null
}

/**
 * The rows that operations of a batch share, read in one statement under the chain lock and written back multi-row.
 * An operation changes records in place and marks them dirty, so that the next one of the batch sees what it did.
 */
export class Ledger {
  readonly runs = new Map<string, RunState>()
  readonly effects = new Map<string, EffectRecord>()
  readonly steps = new Map<string, StepRecord>()
  readonly approvals = new Map<string, ApprovalRecord>()
  readonly roles = new Map<string, Role>()
  /** Members whose address is confirmed. */
  readonly confirmed = new Set<string>()
  readonly dirtyRuns = new Set<RunState>()
  readonly dirtyEffects = new Set<EffectRecord>()
  readonly dirtySteps = new Set<StepRecord>()
  readonly dirtyApprovals = new Set<ApprovalRecord>()
  readonly newEffects: EffectRecord[] = []
  readonly newApprovals: NewApproval[] = []
  readonly newDecisions: NewDecision[] = []
  /** Of the organization; only read where a run of the ledger has none. */
  slots = { taken: 0, waiting: 0 }

  step(runId: string, stepId: string): StepRecord | undefined {
    return this.steps.get(stepKey(runId, stepId))
  }

  /** Adds a call's row, as yet without a state of its own: the caller gives it one. */
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

  /** Marks a changed record to be written; new ones are written whole anyway. */
  touchEffect(record: EffectRecord): void {
    if (!this.newEffects.includes(record)) this.dirtyEffects.add(record)
  }

  /** Sends what has changed; whether it was written shows at the commit. */
  write(tx: ChainTx): void {
    writeLedger(tx, this)
  }
}

interface LoadedRows {
  slots: { taken: number; waiting: number } | null
  runs: RunState[] | null
  effects: EffectRecord[] | null
  steps: StepRecord[] | null
  approvals: ApprovalRecord[] | null
  roles: { user_id: string; role: Role; confirmed: boolean }[] | null
}

const family = {}

/** A kind of operation on calls of runs: all of them read and write through one Ledger. */
export function ledgerKind<Op extends { readonly key: EffectKey }, R>(
  point: CommitPoint,
  apply: (tx: ChainTx, ledger: Ledger, op: Op) => R,
): BatchKind<Op, Ledger, R> {
  return {
    point,
    family,
    load: (reader, ops) =>
      loadLedger(
        reader,
        ops.map((op) => op.key),
      ),
    apply,
    write: (tx, ledger) => writeLedger(tx, ledger),
  }
}

/** Reads runs, the named calls with their steps and approvals, and the present roles of requesters and voters. */
export async function loadLedger(reader: ChainReader, keys: readonly EffectKey[]): Promise<Ledger> {
  const { organizationId } = reader
  const runIds = [...new Set(keys.map((key) => key.runId))]
  const rows = await reader.send(sql<LoadedRows>`
    with k as (
      select distinct * from unnest(${keys.map((key) => key.runId)}::text[], ${keys.map((key) => key.stepId)}::text[],
                           ${keys.map((key) => key.itemIndex)}::int[]) as k(run_id, step_id, item_index)
    ), r as (
      select id, workflow_id, workflow_version, requested_by, risk, cancel_requested_at, finished_at, status,
             status_reason, decision_seq, stored_bytes, nodes_executed, nodes_failed, started_at,
             slot, cost, calls.*
      from runs cross join lateral (
        select count(*) filter (where e.state in ('held', 'unknown_outcome'))::int as waiting,
               count(*) filter (where k.run_id is null and e.state in ('intent', 'sent', 'retry'))::int as others_under_way,
               count(*) filter (where k.run_id is null and e.wants_slot)::int as others_wanting
        from effects e left join k using (run_id, step_id, item_index)
        where e.run_id = runs.id and e.state in ('held', 'unknown_outcome', 'intent', 'sent', 'retry')
      ) as calls
      where id = any(${runIds}) and organization_id = ${organizationId}
    ), e as (
      select run_id, step_id, item_index, tool, state, attempt, failures, resolved_outcome, params_hash, labels,
             label_sources, decision_id, approval_id, output_labels, error, intent_at, sent_at, finished_at, duration_ms, wants_slot
      from effects join k using (run_id, step_id, item_index)
      -- \`effect.sent\` is committed outside the chain lock: the row lock keeps a mark and a new attempt apart.
      for update of effects
    ), s as (
      select run_id, step_id, item_count, status, verdict, attempts, labels, error, started_at, finished_at
      from run_steps where (run_id, step_id) in (select run_id, step_id from k)
    ), a as (
      select ${approvalColumns}
      from approvals where id in (select approval_id from e)
    ), m as (
      select user_id, role, (select email_verified from users where id = memberships.user_id) as confirmed
      from memberships where organization_id = ${organizationId}
        and user_id in (select requested_by from r union select v.user_id from approval_votes v join a on a.id = v.approval_id)
    )
    select (select json_agg(r) from r) as runs, (select json_agg(e) from e) as effects,
           (select json_agg(s) from s) as steps, (select json_agg(a) from a) as approvals,
           (select json_agg(m) from m) as roles,
           case when exists(select from r where slot is distinct from 'taken') then
             (select json_build_object('taken', count(*) filter (where slot = 'taken'),
                                       'waiting', count(*) filter (where slot <> 'taken'))
              from runs where organization_id = ${organizationId} and slot is not null)
           end as slots`)
  const loaded = rows[0] as LoadedRows
  const ledger = new Ledger()
  if (loaded.slots !== null) ledger.slots = loaded.slots
  for (const run of loaded.runs ?? []) ledger.runs.set(run.id, run)
  for (const effect of loaded.effects ?? [])
    ledger.effects.set(`${effect.run_id}/${effect.step_id}/${effect.item_index}`, effect)
  for (const step of loaded.steps ?? []) ledger.steps.set(stepKey(step.run_id, step.step_id), step)
  for (const approval of loaded.approvals ?? []) ledger.approvals.set(approval.id, approval)
  for (const { user_id, role, confirmed } of loaded.roles ?? []) {
    ledger.roles.set(user_id, role)
    if (confirmed) ledger.confirmed.add(user_id)
  }
  return ledger
}
