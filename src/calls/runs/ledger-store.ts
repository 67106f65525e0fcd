import { sql, type RawBuilder } from 'kysely'
import type { EffectKey } from '../../contract/ids.ts'
import { updateApprovals, numbered } from '../../db/queries/approvals.ts'
import {
  readRunLedger,
  insertNewEffects,
  updateMovedEffects,
  updateRuns,
  updateSteps,
} from '../../db/queries/runs.ts'
import type { ChainReader, ChainTx } from '../../governance/audit/chain-tx.ts'
import type { BatchKind } from '../../governance/audit/lane-transactions.ts'
import type { CommitPoint } from '../../governance/audit/commit-points.ts'
import {
  insertApprovals,
  insertDecisions,
  insertFirstVotes,
  type ApprovalRecord,
} from '../../governance/approvals/records.ts'
import { Ledger, stepKey, type EffectRecord, type RunState, type StepRecord } from './ledger.ts'
import { giveSlotsBack, handOn } from './slot-moves.ts'

const family = {}

/** All kinds share one Ledger, so they can share a batch. The call that `after` names is read too. */
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

/** Also reads the current roles of the requesters and voters. */
export async function loadLedger(reader: ChainReader, keys: readonly EffectKey[]): Promise<Ledger> {
  const rows = await reader.send(
    readRunLedger<RunState, EffectRecord, StepRecord, ApprovalRecord>(reader.organizationId, keys),
  )
  const loaded = rows[0] as (typeof rows)[number]
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
  for (const [userId, groups] of Object.entries(loaded.groups ?? {})) ledger.groups.set(userId, groups)
  return ledger
}

/** All changes of a batch go in one SQL statement. It finds binary values by the row's number. */
export function writeLedger(tx: ChainTx, ledger: Ledger): void {
  const slotsMoved = giveSlotsBack(ledger)
  const parts: RawBuilder<unknown>[] = []
  if (ledger.newEffects.length > 0) parts.push(insertEffects(tx, ledger.newEffects))
  if (ledger.dirtyEffects.size > 0) parts.push(updateEffects([...ledger.dirtyEffects]))
  if (ledger.newApprovals.length > 0) parts.push(insertApprovals(tx, ledger.newApprovals))
  const votes = insertFirstVotes(tx, ledger.newApprovals)
  if (votes !== null) parts.push(votes)
  if (ledger.dirtyApprovals.size > 0) parts.push(updateApprovals([...ledger.dirtyApprovals]))
  if (ledger.newDecisions.length > 0) parts.push(insertDecisions(tx, ledger.newDecisions))
  if (ledger.dirtyRuns.size > 0) parts.push(updateRuns([...ledger.dirtyRuns]))
  if (ledger.dirtySteps.size > 0) parts.push(updateSteps([...ledger.dirtySteps]))
  if (parts.length > 0) void tx.send(sql`with ${sql.join(parts)} select 1`)
  if (slotsMoved) handOn(tx)
}

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
  return insertNewEffects({
    organizationId: tx.organizationId,
    rows: effectRows(effects),
    outputs: outputsOf(effects),
    sealed: effects.map((effect) => effect.sealed ?? null),
    details: detailsOf(effects),
  })
}

function updateEffects(effects: readonly EffectRecord[]): RawBuilder<unknown> {
  return updateMovedEffects({
    rows: effectRows(effects),
    outputs: outputsOf(effects),
    details: detailsOf(effects),
  })
}
