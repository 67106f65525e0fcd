import type { Context as ActivityContext } from '@temporalio/activity'
import type { Repeat } from '../tools/kit/tool.ts'
import { effectId, type EffectKey } from '../contract/ids.ts'
import type { Context } from '../governance/context.ts'
import { decideNext } from '../calls/runs/effect.ts'
import { stillHolds } from '../calls/runs/outcome.ts'
import { followingCall, type CallOutcome, type DecidedCall } from '../calls/runs/call.ts'
import { finishWithLastCall } from '../governance/runs/end/finish.ts'
import { kindOf } from '../steps/index.ts'
import { unionLabels } from '../policy/types.ts'
import { prepareNext } from '../calls/runs/prepare.ts'

/*
 * The transaction that saves the outcome of a call also decides the next call, or ends the run. The next
 * call's activity uses the decision if it is still valid. If the activity goes to another worker, or this
 * worker dies, the call is decided again from its row, as after every crash.
 */

export interface DecidedAhead {
  /** Returns null if the decision is no longer valid. Each call is returned at most once. */
  take(context: Context, key: EffectKey): Promise<DecidedCall | null>
  keep(call: DecidedCall): void
}

/** A worker never has so many quick calls in progress. */
const mostKept = 200
/** In milliseconds. An older call is dropped when another call is kept. */
const keptMilliseconds = 10_000

export function createDecidedAhead(clock: () => number = () => performance.now()): DecidedAhead {
  const kept = new Map<string, DecidedCall & { readonly at: number }>()
  return {
    async take(context, key) {
      const id = effectId(key)
      const call = kept.get(id)
      if (call === undefined) return null
      kept.delete(id)
      const { attempt, basis } = call.decision
      return (await stillHolds(context, key, attempt, basis)) ? call : null
    },
    keep(call) {
      const at = clock()
      kept.set(effectId(call.call.key), { ...call, at })
      for (const [id, each] of kept) {
        if (kept.size <= mostKept && each.at > at - keptMilliseconds) break
        kept.delete(id)
      }
    },
  }
}

/** A second run has no further effect, although another worker may decide and make the call again. */
const mayBeDecidedAhead: ReadonlySet<Repeat> = new Set(['free', 'transactional'])

/** The transaction that saves the outcome may also decide the next call, which `ahead` keeps. */
export interface Attempt extends DecidedCall {
  readonly context: Context
  readonly activity: ActivityContext
  readonly ahead: DecidedAhead
}

/** Run this right after the outcome is submitted, so that one transaction saves both. Never throws. */
export type FollowUp = () => Promise<void>

/** Returns null if no operation follows, or if the preparation fails. The outcome is saved even then. */
export const followUpOf = (
  attempt: Attempt,
  result: CallOutcome['result'],
  output: string,
): Promise<FollowUp | null> => prepared(attempt, result, output).catch(() => null)

async function prepared(
  attempt: Attempt,
  result: CallOutcome['result'],
  output: string,
): Promise<FollowUp | null> {
  const { activity, context, call: made, decision, ahead } = attempt
  if (!activity.info.isLocal || result.state !== 'completed' || activity.cancellationSignal.aborted)
    return null
  if (made.key.itemIndex >= 0) return null
  if (made.isLast && made.definition.result === undefined)
    return () => quietly(finishWithLastCall(context, made.run))
  const expectedLabels = unionLabels(made.labels, result.labels, decision.addedLabels)
  const next = await followingCall(context, made, expectedLabels)
  if (next?.tool === undefined || next.step.for_each !== undefined) return null
  const { tool } = next
  if (!mayBeDecidedAhead.has(tool.repeat) || !kindOf(next.step).skeleton(next.step).isQuick) return null
  const call = await prepareNext(context, next, tool, output)
  if (call === null) return null
  const asked = { key: next.key, after: made.key, expectedLabels, call }
  return () =>
    quietly(
      context.combiner.join(made.run.organizationId, decideNext, asked).then((decided) => {
        if (decided?.go === true) ahead.keep({ call, decision: decided })
      }),
    )
}

/** A failure is ignored, because the activity of the next operation does this work again. */
const quietly = (work: Promise<unknown>): Promise<void> =>
  work.then(
    () => undefined,
    () => undefined,
  )
