import { effectId, type EffectKey } from '../../../contract/effect-key.ts'
import type { Label } from '../../../policy/types.ts'
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
 * Decides a call right after the outcome of the previous call, in the same transaction (commit point `effect.decide`).
 * Returns null and writes nothing if the outcome is not the expected one, or if the call has a row already. The same
 * holds if the run is not `running` or is being cancelled, or if the organization is frozen. The call is then decided
 * when its activity runs. After a crash the call is in `intent` and is decided again.
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
