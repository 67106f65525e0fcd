import { ApplicationFailure } from '@temporalio/common'
import { failureTypes, type StepDone } from '../contract/messages.ts'
import type { EffectState } from '../contract/status.ts'
import type { OutcomeOp } from '../calls/runs/outcome.ts'
import type { Outdated } from '../governance/tools/memory.ts'
import { errorPlace, outputPlace } from '../governance/sealing/places.ts'
import { sealText } from '../governance/sealing/sealer.ts'
import { answer } from './answers.ts'
import { changedBy } from './approved.ts'
import type { Attempt } from './call-attempt.ts'
import { Control } from './call-control.ts'
import type { Ended } from './ended.ts'
import { throughOutages } from './patience.ts'
import { retryLater } from './retry.ts'
import { followUpOf, type FollowUp } from './decided-ahead.ts'
import type { DecidedCall } from './decided-call.ts'
import type { ToolResult } from '../tools/kit/executor.ts'

/** Runs the body of a decided call and records its outcome. */
export async function runAttempt(
  attempt: Attempt,
  body: (call: DecidedCall) => Promise<unknown>,
): Promise<StepDone> {
  const startedAt = Date.now()
  const control = new Control(attempt)
  control.logState('the call starts')
  const ended = await control.run(body)
  // The call was decided again before it acted, and the new decision is already recorded.
  if ('refused' in ended) return answer(ended.refused, attempt.activity)
  if ('changed' in ended) return heldAgain(attempt, control, ended.changed)
  const result = await sealed(attempt, ended.result)
  const follow = 'output' in ended.result ? await followUpOf(attempt, result, ended.result.output) : null
  const outcome = (): OutcomeOp => ({
    key: attempt.op.key,
    attempt: control.attempt,
    result,
    durationMs: Date.now() - startedAt,
    bodiless: !control.body.hasBegun,
  })
  for (;;) {
    const state = await save(control, outcome(), ended.stores, follow)
    if (state === 'changed') {
      const refused = await control.decideAgain()
      if (refused === null) continue
      return refused === 'superseded' ? conclude(attempt, 'intent') : answer(refused, attempt.activity)
    }
    if (state === 'outdated') return heldAgain(attempt, control, changedBy(attempt.tool))
    if (state === 'retry') throw retryLater(attempt, ended.retryAfterSeconds)
    if (state === 'completed' && ended.result.state === 'completed') return { outcome: 'completed' }
    return conclude(attempt, state)
  }
}

/**
 * Decides again about a call whose approval is outdated, because the thing named by `changed` has changed. Usually the
 * call is then held for a new approval. The call has done nothing so far.
 */
async function heldAgain(attempt: Attempt, control: Control, changed: string): Promise<StepDone> {
  control.logState(`${changed} has changed since it was approved`)
  const refused = await throughOutages(() => control.holdAgain(changed))
  if (refused === 'superseded') return conclude(attempt, 'intent')
  // No rule requires an approval for the call any more. So the next attempt makes the call, although `changed` has
  // changed.
  if (refused === null) throw retryLater(attempt)
  return answer(refused, attempt.activity)
}

/** Tells the workflow the state in the call's row, because another attempt may have continued the call meanwhile. */
function conclude({ activity }: Attempt, state: EffectState): StepDone {
  if (state === 'held' || state === 'intent' || state === 'sent' || state === 'retry')
    throw ApplicationFailure.create({ message: 'the attempt was superseded', type: failureTypes.unavailable })
  if (state === 'unknown_outcome') return answer({ go: false, state }, activity)
  return answer({ go: false, state, reason: state }, activity)
}

/**
 * Saves a known outcome. Also does the operation that follows the call, for example the decision about the next call.
 * Tries again while the database cannot be reached, because otherwise the outcome would become unknown.
 */
function save(
  control: Control,
  op: OutcomeOp,
  stores: ToolResult['stores'],
  follow: FollowUp | null,
): Promise<EffectState | 'changed' | Outdated> {
  return throughOutages(async () => {
    const [state] = await Promise.all([control.save(op, stores), follow?.()])
    return state
  })
}

/**
 * Seals the values of a result. Values are sealed before the outcome is saved, so that no lock is held while they are
 * sealed.
 */
async function sealed({ context, op }: Attempt, result: Ended['result']): Promise<OutcomeOp['result']> {
  if ('error' in result) {
    const { detail, ...failed } = result
    if (detail === undefined) return failed
    const seal = () => sealText(context.sealer, errorPlace(op.key), JSON.stringify(detail))
    return { ...failed, errorDetail: await throughOutages(seal) }
  }
  if (result.state !== 'completed') return result
  const { output } = result
  return {
    ...result,
    output: await throughOutages(() => sealText(context.sealer, outputPlace(op.key), output)),
  }
}
