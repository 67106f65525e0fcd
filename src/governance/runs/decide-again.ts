import { decideStep, type StepOp, type StepVerdict } from './effect.ts'
import { effectId, ledgerKind, type EffectKey } from './ledger.ts'

/** A call that was allowed as `attempt`, and is about to act. */
export interface DecideAgainOp {
  readonly key: EffectKey
  readonly step: StepOp
  readonly attempt: number
}

/**
 * Decides a call again just before it acts, because the rules or the requester's role have changed since (commit point
 * `effect.decide`). The approval that this call has used stays usable by it. Answers null when another attempt has taken
 * over. A crash before or after means what it means for every decision: the call is in `intent` and is decided again.
 */
export const decideAgain = ledgerKind(
  'effect.decide',
  (tx, ledger, { key, step, attempt }: DecideAgainOp): StepVerdict | null => {
    const effect = ledger.effects.get(effectId(key))
    if (effect === undefined || effect.attempt !== attempt || effect.state !== 'intent') return null
    return decideStep(tx, ledger, step)
  },
)
