import type { StepOp } from './step-op.ts'
import type { EffectRecord } from './ledger.ts'
import type { LockedRun } from './run-call.ts'
import { sourceBytes, countStoredBytes } from './storage-limit.ts'

/**
 * Adds the row of a call that is not yet decided. If `fits` is false, the run has no storage left for the call's
 * parameters, so they are not stored.
 */
export function addEffect(locked: LockedRun, op: StepOp, fits: boolean): EffectRecord {
  const { tx, ledger } = locked
  if (fits) countStoredBytes(locked, op.sealed.length + sourceBytes(op.labelSources))
  if (fits) tx.expects({ bytes: op.sealed.length })
  return ledger.addEffect({
    run_id: op.key.runId,
    step_id: op.key.stepId,
    item_index: op.key.itemIndex,
    tool: op.tool.name,
    // This state is overwritten before the transaction ends, because every path from here sets a state.
    state: 'retry',
    attempt: 0,
    bodies: 0,
    body_counted: false,
    failures: 0,
    resolved_outcome: null,
    params_hash: op.paramsHash,
    labels: op.labels,
    label_sources: op.labelSources,
    decision_id: null,
    approval_id: null,
    output_labels: [],
    error: null,
    past_outcomes: [],
    intent_at: null,
    sent_at: null,
    sent_with: null,
    finished_at: null,
    duration_ms: null,
    wants_slot: false,
    sealed: fits ? op.sealed : null,
  })
}
