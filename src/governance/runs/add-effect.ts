import type { ChainTx } from '../chain-tx.ts'
import type { StepOp } from './effect.ts'
import type { EffectRecord, Ledger, RunState } from './ledger.ts'
import { sourceBytes, takeRoom } from './room.ts'

/** The row of a call that nothing was decided of yet. What there is no room for is not kept. */
export function addEffect(
  tx: ChainTx,
  ledger: Ledger,
  run: RunState,
  op: StepOp,
  fits: boolean,
): EffectRecord {
  if (fits) takeRoom(ledger, run, op.sealed.length + sourceBytes(op.labelSources))
  if (fits) tx.expects({ bytes: op.sealed.length })
  return ledger.addEffect({
    run_id: op.key.runId,
    step_id: op.key.stepId,
    item_index: op.key.itemIndex,
    tool: op.tool.name,
    // Nothing decided yet; every path from here gives it a state before the transaction ends.
    state: 'retry',
    attempt: 0,
    failures: 0,
    resolved_outcome: null,
    params_hash: op.paramsHash,
    labels: op.labels,
    label_sources: op.labelSources,
    decision_id: null,
    approval_id: null,
    output_labels: [],
    error: null,
    intent_at: null,
    sent_at: null,
    finished_at: null,
    duration_ms: null,
    wants_slot: false,
    sealed: fits ? op.sealed : null,
  })
}
