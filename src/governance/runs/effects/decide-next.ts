import { effectId, type EffectKey } from '../../../contract/effect-key.ts'
import type { Label } from '../../../policy/types.ts'
import { decideStep, type StepVerdict } from './effect.ts'
import { ledgerKind } from './ledger-store.ts'
import type { StepOp } from './step-op.ts'

/** A call that was made ready before the outcome of the call before it was saved. */
export interface NextOp {
  readonly key: EffectKey
  /** The call before it, and the labels that its output was expected to get. */
  readonly after: EffectKey
  readonly expectedLabels: readonly Label[]
  readonly step: StepOp
}

/**
 * Decides a call right behind the outcome of the call before it, so that both share a transaction (commit point
 * `effect.decide`). Returns null and writes nothing if that outcome is not the expected one, or if the run is not
 * simply going on: then the call is decided when its activity comes. After a crash the call is in `intent` and is
 * decided again.
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
