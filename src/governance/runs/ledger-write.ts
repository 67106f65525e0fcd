import { sql, type RawBuilder } from 'kysely'
import type { ChainTx } from '../chain-tx.ts'
import { insertApprovals, insertDecisions, numbered, updateApprovals } from '../records.ts'
import type { EffectRecord, Ledger } from './ledger.ts'
import { giveSlotsBack, handOn } from './slot-moves.ts'

/**
 * Sends everything that a batch changed in one statement. Rows travel as JSON, what can be large or binary (outputs,
 * sealed parameters) as parameters of its own, joined by the row's number.
 */
export function writeLedger(tx: ChainTx, ledger: Ledger): void {
  const slotsMoved = giveSlotsBack(ledger)
  const parts: RawBuilder<unknown>[] = []
  if (ledger.newEffects.length > 0) parts.push(insertEffects(tx, ledger.newEffects))
  if (ledger.dirtyEffects.size > 0) parts.push(updateEffects([...ledger.dirtyEffects]))
  if (ledger.newApprovals.length > 0) parts.push(insertApprovals(tx, ledger.newApprovals))
  if (ledger.dirtyApprovals.size > 0) parts.push(updateApprovals(ledger.dirtyApprovals))
  if (ledger.newDecisions.length > 0) parts.push(insertDecisions(tx, ledger.newDecisions))
  if (ledger.dirtyRuns.size > 0) parts.push(updateRuns(ledger))
  if (ledger.dirtySteps.size > 0) parts.push(updateSteps(ledger))
  if (parts.length > 0) void tx.send(sql`with ${sql.join(parts)} select 1`)
  if (slotsMoved) handOn(tx)
}

/** Columns of an effect that a record holds, apart from its key, output and sealed parameters. */
const effectColumns = sql`n int, run_id text, step_id text, item_index int, tool text, state text, attempt int,
  failures int, resolved_outcome text, params_hash text, labels text[], label_sources jsonb, decision_id text,
  approval_id text, output_labels text[], error jsonb, intent_at timestamptz, sent_at timestamptz,
  finished_at timestamptz, duration_ms int, wants_slot boolean`

function effectRows(effects: readonly EffectRecord[]): string {
  return numbered(effects.map(({ sealed: _sealed, output: _output, ...effect }) => effect))
}

const outputsOf = (effects: readonly EffectRecord[]) => effects.map((effect) => effect.output ?? null)

function insertEffects(tx: ChainTx, effects: readonly EffectRecord[]): RawBuilder<unknown> {
  return sql`new_effects as (
    insert into effects (organization_id, run_id, step_id, item_index, tool, state, attempt, failures,
      resolved_outcome, params_hash, labels, label_sources, decision_id, approval_id, output_labels, error, intent_at,
      sent_at, finished_at, duration_ms, wants_slot, output_sealed, params_sealed)
    select ${tx.organizationId}, r.run_id, r.step_id, r.item_index, r.tool, r.state, r.attempt, r.failures,
      r.resolved_outcome, r.params_hash, r.labels, r.label_sources, r.decision_id, r.approval_id, r.output_labels,
      r.error, r.intent_at, r.sent_at, r.finished_at, r.duration_ms, r.wants_slot, o.output, o.sealed
    from json_to_recordset(${effectRows(effects)}::json) as r(${effectColumns})
    join unnest(${outputsOf(effects)}::bytea[], ${effects.map((effect) => effect.sealed ?? null)}::bytea[])
      with ordinality as o(output, sealed, n) on o.n = r.n
  )`
}

function updateEffects(effects: readonly EffectRecord[]): RawBuilder<unknown> {
  return sql`moved_effects as (
    update effects e set state = r.state, attempt = r.attempt, failures = r.failures,
      resolved_outcome = r.resolved_outcome, labels = r.labels, label_sources = r.label_sources,
      decision_id = r.decision_id, approval_id = r.approval_id, output_labels = r.output_labels, error = r.error,
      intent_at = r.intent_at, sent_at = r.sent_at, finished_at = r.finished_at, duration_ms = r.duration_ms,
      wants_slot = r.wants_slot, output_sealed = coalesce(o.output, e.output_sealed)
    from json_to_recordset(${effectRows(effects)}::json) as r(${effectColumns})
    join unnest(${outputsOf(effects)}::bytea[]) with ordinality as o(output, n) on o.n = r.n
    where e.run_id = r.run_id and e.step_id = r.step_id and e.item_index = r.item_index
  )`
}

function updateRuns(ledger: Ledger): RawBuilder<unknown> {
  return sql`moved_runs as (
    update runs set status = r.status, status_reason = r.status_reason, decision_seq = r.decision_seq,
      stored_bytes = r.stored_bytes, nodes_executed = r.nodes_executed, nodes_failed = r.nodes_failed, started_at = r.started_at,
      slot = r.slot, cost = r.cost
    from json_to_recordset(${JSON.stringify([...ledger.dirtyRuns])}::json) as r(id text, status text,
      status_reason text, decision_seq int, stored_bytes bigint, nodes_executed int, nodes_failed int, started_at timestamptz,
      slot text, cost numeric)
    where runs.id = r.id
  )`
}

function updateSteps(ledger: Ledger): RawBuilder<unknown> {
  return sql`moved_steps as (
    update run_steps set status = r.status, verdict = r.verdict, attempts = r.attempts, labels = r.labels,
      error = r.error, started_at = r.started_at, finished_at = r.finished_at
    from json_to_recordset(${JSON.stringify([...ledger.dirtySteps])}::json) as r(run_id text, step_id text,
      status text, verdict text, attempts int, labels text[], error jsonb, started_at timestamptz,
      finished_at timestamptz)
    where run_steps.run_id = r.run_id and run_steps.step_id = r.step_id
  )`
}
