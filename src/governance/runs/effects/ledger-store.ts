import { sql, type RawBuilder } from 'kysely'
import type { EffectKey } from '../../../contract/effect-key.ts'
import type { Role } from '../../../policy/types.ts'
import type { ChainReader, ChainTx } from '../../audit/chain-tx.ts'
import type { BatchKind } from '../../audit/combiner.ts'
import type { CommitPoint } from '../../audit/commit-points.ts'
import {
  approvalColumns,
  insertApprovals,
  insertDecisions,
  numbered,
  updateApprovals,
  type ApprovalRecord,
} from '../../approvals/records.ts'
import { Ledger, stepKey, type EffectRecord, type RunState, type StepRecord } from './ledger.ts'
import { giveSlotsBack, handOn } from './slot-moves.ts'

interface LoadedRows {
  slots: { taken: number; waiting: number } | null
  runs: RunState[] | null
  effects: EffectRecord[] | null
  steps: StepRecord[] | null
  approvals: ApprovalRecord[] | null
  roles: { user_id: string; role: Role; confirmed: boolean }[] | null
}

const family = {}

/**
 * A kind of operation on calls of runs. All kinds share one Ledger, so they can share a batch. An operation also reads
 * the call that it comes `after`.
 */
export function ledgerKind<Op extends { readonly key: EffectKey; readonly after?: EffectKey }, R>(
  point: CommitPoint,
  apply: (tx: ChainTx, ledger: Ledger, op: Op) => R,
): BatchKind<Op, Ledger, R> {
  return {
    point,
    family,
    load: (reader, ops) =>
      loadLedger(
        reader,
        ops.flatMap(({ key, after }) => (after === undefined ? [key] : [key, after])),
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
             label_sources, decision_id, approval_id, output_labels, error, past_outcomes, intent_at, sent_at, sent_with,
             finished_at, duration_ms, wants_slot
      from effects join k using (run_id, step_id, item_index)
      -- \`effect.sent\` commits outside the chain lock: the row lock orders it against a new attempt.
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

/**
 * Sends all changes of a batch in one statement. Rows travel as JSON. Outputs and sealed parameters are binary, so they
 * travel as separate parameters, joined by the row's number.
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

/** Columns of an effect, without its sealed values. */
const effectColumns = sql`n int, run_id text, step_id text, item_index int, tool text, state text, attempt int,
  failures int, resolved_outcome text, params_hash text, labels text[], label_sources jsonb, decision_id text,
  approval_id text, output_labels text[], error jsonb, past_outcomes jsonb, intent_at timestamptz, sent_at timestamptz,
  sent_with text,   finished_at timestamptz, duration_ms int, wants_slot boolean, sets_detail boolean`

function effectRows(effects: readonly EffectRecord[]): string {
  return numbered(
    effects.map(({ sealed: _sealed, output: _output, errorDetail, ...effect }) => ({
      ...effect,
      sets_detail: errorDetail !== undefined,
    })),
  )
}

const outputsOf = (effects: readonly EffectRecord[]) => effects.map((effect) => effect.output ?? null)
const detailsOf = (effects: readonly EffectRecord[]) => effects.map((effect) => effect.errorDetail ?? null)

function insertEffects(tx: ChainTx, effects: readonly EffectRecord[]): RawBuilder<unknown> {
  return sql`new_effects as (
    insert into effects (organization_id, run_id, step_id, item_index, tool, state, attempt, failures,
      resolved_outcome, params_hash, labels, label_sources, decision_id, approval_id, output_labels, error, past_outcomes, intent_at,
      sent_at, sent_with, finished_at, duration_ms, wants_slot, output_sealed, params_sealed, error_detail_sealed)
    select ${tx.organizationId}, r.run_id, r.step_id, r.item_index, r.tool, r.state, r.attempt, r.failures,
      r.resolved_outcome, r.params_hash, r.labels, r.label_sources, r.decision_id, r.approval_id, r.output_labels,
      r.error, r.past_outcomes, r.intent_at, r.sent_at, r.sent_with, r.finished_at, r.duration_ms, r.wants_slot, o.output, o.sealed, o.detail
    from json_to_recordset(${effectRows(effects)}::json) as r(${effectColumns})
    join unnest(${outputsOf(effects)}::bytea[], ${effects.map((effect) => effect.sealed ?? null)}::bytea[],
                ${detailsOf(effects)}::bytea[])
      with ordinality as o(output, sealed, detail, n) on o.n = r.n
  )`
}

function updateEffects(effects: readonly EffectRecord[]): RawBuilder<unknown> {
  return sql`moved_effects as (
    update effects e set state = r.state, attempt = r.attempt, failures = r.failures,
      resolved_outcome = r.resolved_outcome, labels = r.labels, label_sources = r.label_sources,
      decision_id = r.decision_id, approval_id = r.approval_id, output_labels = r.output_labels, error = r.error,
      past_outcomes = r.past_outcomes, intent_at = r.intent_at, sent_at = r.sent_at, sent_with = r.sent_with, finished_at = r.finished_at, duration_ms = r.duration_ms,
      wants_slot = r.wants_slot, output_sealed = coalesce(o.output, e.output_sealed),
      error_detail_sealed = case when r.sets_detail then o.detail else e.error_detail_sealed end
    from json_to_recordset(${effectRows(effects)}::json) as r(${effectColumns})
    join unnest(${outputsOf(effects)}::bytea[], ${detailsOf(effects)}::bytea[])
      with ordinality as o(output, detail, n) on o.n = r.n
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
