import type { StepOp } from './step-op.ts'
import { decideStep, type StepVerdict } from './effect.ts'
import { countBody } from './ledger-moves.ts'
import { effectId, type EffectKey } from '../../contract/effect-key.ts'
import { ledgerKind } from './ledger-store.ts'

/** A call that is about to act. `attempt` is the number of the attempt that was allowed. */
export interface DecideAgainOp {
  readonly key: EffectKey
  readonly step: StepOp
  readonly attempt: number
}

/**
 * Decides a call again just before it acts (commit point `effect.decide`). This is needed if one of these has changed
 * since the earlier decision: the rules, the requester's role, or the thing that the call would change. An approval
 * that the call has used can let the call through again. Returns null if another attempt has taken over. If the process
 * crashes after the call was allowed, the call's row is in `intent`, and the next attempt decides the call again.
 */
export const decideAgain = ledgerKind(
  'effect.decide',
  (tx, ledger, { key, step, attempt }: DecideAgainOp): StepVerdict | null => {
    const effect = ledger.effects.get(effectId(key))
    if (effect === undefined || effect.attempt !== attempt) return null
    if (effect.state === 'intent') countBody(effect)
    if (step.changed !== undefined && (effect.state === 'intent' || effect.state === 'sent')) {
      // `changed` means: the tool saw that its target had changed, and did nothing. So the call is not `sent` any more.
      effect.state = 'retry'
      effect.sent_at = effect.sent_with = null
      ledger.touchEffect(effect)
    } else if (effect.state !== 'intent') return null
    const verdict = decideStep(tx, ledger, step)
    // The same body goes on with the new decision, unless it has given up.
    if (verdict.go) effect.body_counted = step.changed === undefined
    return verdict
  },
)
