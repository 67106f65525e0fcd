import { effectId, type EffectKey } from '../../contract/effect-key.ts'
import type { Label } from '../../policy/types.ts'
import { decideStep, type StepVerdict } from './effect.ts'
import { ledgerKind } from './ledger-store.ts'
import type { StepOp } from './step-op.ts'

/** A call that was prepared before the outcome of the previous call was saved. */
export interface NextOp {
  readonly key: EffectKey
  /** The previous call. `expectedLabels` are the labels that its output was expected to get. */
  readonly after: EffectKey
  readonly expectedLabels: readonly Label[]
  readonly step: StepOp
}

/**
 * Decides a call in the transaction that saves the outcome of the previous call (commit point `effect.decide`). If the
 * process crashes after the call was allowed, the call's row is in `intent`, and the call's activity decides it again.
 *
 * In these cases, the function returns null and writes nothing. The call is then decided when its activity runs.
 *
 * - The previous call is not completed, or the labels of its output are not the expected labels.
 * - The call has a row already.
 * - The run is not `running`, or its cancellation was requested.
 * - The organization is frozen.
 */
export const decideNext = ledgerKind(
  'effect.decide',
  (tx, ledger, { key, after, expectedLabels, step }: NextOp): StepVerdict | null => {
    const run = ledger.runs.get(key.runId)
    if (run?.status !== 'running' || run.cancel_requested_at !== null || tx.policy.frozen !== null)
      return null
    const before = ledger.effects.get(effectId(after))
    if (before?.state !== 'completed' || ledger.effects.has(effectId(key))) return null
    const { output_labels: labels } = before
    const isExpected =
      labels.length === expectedLabels.length &&
      labels.every((label, index) => label === expectedLabels[index])
    return isExpected ? decideStep(tx, ledger, step) : null
  },
)
