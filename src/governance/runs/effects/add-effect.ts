import type { EffectKey } from '../../../contract/effect-key.ts'
import type { StepOp } from './step-op.ts'
import type { EffectRecord } from './ledger.ts'
import type { LockedRun } from './run-call.ts'
import { sourceBytes, countStoredBytes } from './storage-limit.ts'

/** Returns the row of a call that is not yet decided. Its state is set before the transaction ends. */
export const newEffect = ({ runId, stepId, itemIndex }: EffectKey): Omit<EffectRecord, 'tool'> => ({
  run_id: runId,
  step_id: stepId,
  item_index: itemIndex,
  state: 'retry',
  attempt: 0,
  bodies: 0,
  body_counted: false,
  failures: 0,
  resolved_outcome: null,
  params_hash: null,
  labels: [],
  label_sources: [],
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
  until: null,
  sealed: null,
})

/**
 * Adds the row of a call. If `fits` is false, the run has no storage left for the call's parameters, so they are not
 * stored.
 */
export function addEffect(locked: LockedRun, op: StepOp, fits: boolean): EffectRecord {
  const { tx, ledger } = locked
  if (fits) countStoredBytes(locked, op.sealed.length + sourceBytes(op.labelSources))
  if (fits) tx.expects({ bytes: op.sealed.length })
  return ledger.addEffect({
    ...newEffect(op.key),
    tool: op.tool.name,
    params_hash: op.paramsHash,
    labels: op.labels,
    label_sources: op.labelSources,
    sealed: fits ? op.sealed : null,
  })
}
