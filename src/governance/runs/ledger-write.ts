import { sql } from 'kysely'
import type { ChainTx } from '../chain-tx.ts'
import type { EffectRecord, Ledger } from './ledger.ts'

/** Writes everything that a batch changed, one statement per table and kind of change. */
export async function writeLedger(tx: ChainTx, ledger: Ledger): Promise<void> {
  if (ledger.newEffects.length > 0) await insertEffects(tx, ledger.newEffects)
  if (ledger.dirtyEffects.size > 0) await updateEffects(tx, [...ledger.dirtyEffects])
  if (ledger.newApprovals.length > 0) await insertApprovals(tx, ledger)
  if (ledger.newDecisions.length > 0)
    await tx.trx.insertInto('decisions').values(ledger.newDecisions).execute()
  await updateProjections(tx, ledger)
}

async function insertEffects(tx: ChainTx, effects: readonly EffectRecord[]): Promise<void> {
  const rows = effects.map(({ sealed, output, labels, label_sources, error, output_labels, ...effect }) => ({
    ...effect,
    organization_id: tx.organizationId,
    labels,
    output_labels,
    label_sources: JSON.stringify(label_sources),
    error: error === null ? null : JSON.stringify(error),
    params_sealed: sealed ?? null,
    output: output ?? null,
    intent_at: toDate(effect.intent_at),
    sent_at: toDate(effect.sent_at),
    finished_at: toDate(effect.finished_at),
  }))
  await tx.trx.insertInto('effects').values(rows).execute()
}

const toDate = (text: string | null): Date | null => (text === null ? null : new Date(text))

/** Outputs travel as plain text parameters: they can be megabytes, and JSON inside JSON would double them. */
async function updateEffects(tx: ChainTx, effects: readonly EffectRecord[]): Promise<void> {
  const rows = effects.map(({ sealed: _sealed, output: _output, ...effect }, index) => ({ ...effect, n: index + 1 }))
  await sql`
    update effects e set state = r.state, attempt = r.attempt, failures = r.failures,
      resolved_outcome = r.resolved_outcome, labels = r.labels, label_sources = r.label_sources,
      decision_id = r.decision_id, approval_id = r.approval_id, output_labels = r.output_labels, error = r.error,
      intent_at = r.intent_at, sent_at = r.sent_at, finished_at = r.finished_at, duration_ms = r.duration_ms,
      output = coalesce(o.output, e.output)
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(n int, run_id text, step_id text, item_index int,
      state text, attempt int, failures int, resolved_outcome text, labels text[], label_sources jsonb,
      decision_id text, approval_id text, output_labels text[], error jsonb, intent_at timestamptz,
      sent_at timestamptz, finished_at timestamptz, duration_ms int)
    join unnest(${effects.map((effect) => effect.output ?? null)}::text[]) with ordinality as o(output, n) on o.n = r.n
    where e.run_id = r.run_id and e.step_id = r.step_id and e.item_index = r.item_index`.execute(tx.trx)
}

async function insertApprovals(tx: ChainTx, ledger: Ledger): Promise<void> {
  const rows = ledger.newApprovals.map(({ record, sealed, risk, ...rest }) => {
    const { votes: _votes, ...approval } = record
    return {
      ...approval,
      ...rest,
      organization_id: tx.organizationId,
      session_id: null,
      params_sealed: sealed,
      risk: JSON.stringify(risk),
      created_at: tx.now,
      expires_at: toDate(approval.expires_at),
      decided_at: toDate(approval.decided_at),
      used_at: toDate(approval.used_at),
    }
  })
  await tx.trx.insertInto('approvals').values(rows).execute()
}

/** Runs, steps and approvals that changed: three data-modifying statements in one round trip. */
async function updateProjections(tx: ChainTx, ledger: Ledger): Promise<void> {
  const approvals = [...ledger.dirtyApprovals]
  if (ledger.dirtyRuns.size + ledger.dirtySteps.size + approvals.length === 0) return
  await sql`
    with r as (
      update runs set status = r.status, status_reason = r.status_reason, decision_seq = r.decision_seq,
        nodes_executed = r.nodes_executed, nodes_failed = r.nodes_failed, started_at = r.started_at
      from json_to_recordset(${JSON.stringify([...ledger.dirtyRuns])}::json) as r(id text, status text,
        status_reason text, decision_seq int, nodes_executed int, nodes_failed int, started_at timestamptz)
      where runs.id = r.id
    ), s as (
      update run_steps set status = s.status, verdict = s.verdict, attempts = s.attempts, labels = s.labels,
        error = s.error, started_at = s.started_at, finished_at = s.finished_at
      from json_to_recordset(${JSON.stringify([...ledger.dirtySteps])}::json) as s(run_id text, step_id text,
        status text, verdict text, attempts int, labels text[], error jsonb, started_at timestamptz,
        finished_at timestamptz)
      where run_steps.run_id = s.run_id and run_steps.step_id = s.step_id
    )
    update approvals set status = a.status, decided_at = a.decided_at, used_at = a.used_at, used_by = a.used_by,
      superseded_by = a.superseded_by
    from json_to_recordset(${JSON.stringify(approvals)}::json) as a(id text, status text, decided_at timestamptz,
      used_at timestamptz, used_by text, superseded_by text)
    where approvals.id = a.id`.execute(tx.trx)
}
