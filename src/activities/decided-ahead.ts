import type { Context as ActivityContext } from '@temporalio/activity'
import type { Repeat, ToolDeclaration } from '../tools/kit/tool.ts'
import { effectId, type EffectKey } from '../contract/effect-key.ts'
import type { Context } from '../governance/context.ts'
import { isQuickStep } from '../governance/delivery/skeleton.ts'
import { decideNext } from '../calls/runs/decide-next.ts'
import type { StepVerdict } from '../calls/runs/effect.ts'
import { stillHolds, type OutcomeOp } from '../calls/runs/outcome.ts'
import type { StepOp } from '../calls/runs/step-op.ts'
import { finishWithLastCall } from '../governance/runs/end/finish.ts'
import { followingSpec, type CallSpec } from '../calls/runs/call-spec.ts'
import { unionLabels } from '../policy/types.ts'
import { prepareNext } from '../calls/runs/prepare.ts'
import type { CallInHand } from './seen-state.ts'

/*
 * The transaction that saves the outcome of a call also decides the next call, or ends the run. The next call's
 * activity arrives some milliseconds later. The activity makes the call if the decision is still valid. If the activity
 * goes to another worker, or this worker dies, the call is decided again from its row, as after every crash.
 */

/** A call that was decided before its activity has arrived. */
export interface DecidedCallAhead {
  readonly spec: CallSpec
  readonly tool: ToolDeclaration
  readonly op: StepOp
  readonly verdict: Extract<StepVerdict, { go: true }>
}

/** The next calls that one worker has decided before their activities arrived. */
export interface DecidedAhead {
  /**
   * Returns the kept call with this key. Returns null if there is none, or if its decision is no longer valid. Each
   * call is returned at most once.
   */
  take(context: Context, key: EffectKey): Promise<DecidedCallAhead | null>
  keep(call: DecidedCallAhead): void
}

/** At most this many calls are kept. A worker never has so many quick calls in progress. */
const mostKept = 200
/**
 * A call that has been kept for longer than this many milliseconds is dropped when another call is kept. Usually, the
 * activity of a call arrives sooner.
 */
const keptMilliseconds = 10_000

export function createDecidedAhead(clock: () => number = () => performance.now()): DecidedAhead {
  const kept = new Map<string, DecidedCallAhead & { readonly at: number }>()
  return {
    async take(context, key) {
      const id = effectId(key)
      const call = kept.get(id)
      if (call === undefined) return null
      kept.delete(id)
      const { attempt, basis } = call.verdict
      return (await stillHolds(context, key, attempt, basis)) ? call : null
    },
    keep(call) {
      const at = clock()
      kept.set(effectId(call.op.key), { ...call, at })
      for (const [id, each] of kept) {
        if (kept.size <= mostKept && each.at > at - keptMilliseconds) break
        kept.delete(id)
      }
    },
  }
}

/**
 * If a call of a tool with one of these values of `repeat` runs twice, the second time has no further effect. So such
 * calls may be decided ahead, although another worker may then decide and make the same call again.
 */
const mayBeDecidedAhead: ReadonlySet<Repeat> = new Set(['free', 'transactional'])

/** A call whose body has run. The transaction that saves the call's outcome may also decide the next call. */
interface Leading extends CallInHand {
  readonly activity: ActivityContext
  readonly verdict: DecidedCallAhead['verdict']
  readonly ahead: DecidedAhead
}

/**
 * Submits the operation that follows a call. Run this function right after the outcome is submitted, so that one
 * transaction saves the outcome and the operation. Never throws.
 */
export type FollowUp = () => Promise<void>

/**
 * Prepares the operation that follows a call with the outcome `result`. Returns null if no operation follows, or if the
 * preparation fails. The outcome is saved even then.
 */
export const followUpOf = (
  call: Leading,
  result: OutcomeOp['result'],
  output: string,
): Promise<FollowUp | null> => prepared(call, result, output).catch(() => null)

async function prepared(
  call: Leading,
  result: OutcomeOp['result'],
  output: string,
): Promise<FollowUp | null> {
  const { activity, context, spec, op: made, verdict: lead, ahead } = call
  if (!activity.info.isLocal || result.state !== 'completed' || activity.cancellationSignal.aborted)
    return null
  if (spec.key.itemIndex >= 0) return null
  if (spec.isLast && spec.definition.result === undefined)
    return () => quietly(finishWithLastCall(context, spec.run))
  const expectedLabels = unionLabels(made.labels, result.labels, lead.addedLabels)
  const next = await followingSpec(context, spec, expectedLabels)
  if (next?.tool === undefined || next.step.for_each !== undefined) return null
  const { tool } = next
  if (!mayBeDecidedAhead.has(tool.repeat) || !isQuickStep(next.step)) return null
  const op = await prepareNext(context, next, tool, output)
  if (op === null) return null
  const asked = { key: next.key, after: spec.key, expectedLabels, step: op }
  return () =>
    quietly(
      context.combiner.join(spec.run.organizationId, decideNext, asked).then((verdict) => {
        if (verdict?.go === true) ahead.keep({ spec: next, tool, op, verdict })
      }),
    )
}

/** Ignores a failure of `work`, because the activity of the next operation does this work again. */
const quietly = (work: Promise<unknown>): Promise<void> =>
  work.then(
    () => undefined,
    () => undefined,
  )
