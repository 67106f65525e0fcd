import {
  ActivityCancellationType,
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  sleep,
  type ActivityFunction,
  CancelledFailure,
} from '@temporalio/workflow'
import {
  failureTypes,
  type AgainDetails,
  type EndedDetails,
  type HeldDetails,
  type RunInput,
  type SkeletonStep,
  type StepDone,
  type WaitReason,
} from '../../contract/messages.ts'
import type { EffectKey } from '../../contract/ids.ts'

export type CallResult =
  | { readonly kind: 'done'; readonly outcome: StepDone['outcome'] }
  | { readonly kind: 'ended'; readonly outcome: EndedDetails['outcome'] }
  | WaitReason

interface CallHistory {
  local<T>(activity: () => Promise<T>): Promise<T>
  records(): void
}

/** The text beside the call in Temporal's UI. */
const summaryOf = ({ summary }: SkeletonStep, itemIndex: number | null): string =>
  itemIndex === null ? summary : `${summary}, item ${itemIndex}`

type ToolActivity = ActivityFunction<[EffectKey], StepDone>
type Tools = Record<string, ToolActivity>

/**
 * A quick call may take so much longer than its own time limit, e.g. to wait for its turn. Then Temporal ends
 * the local activity, and the call is made again as an ordinary activity.
 */
const localGraceMilliseconds = 2_000

/**
 * An ordinary activity has the id `step` or `step#item`. A quick call is first tried once as a local
 * activity, which costs Temporal only one event. Temporal retries an ordinary activity only after outages and
 * after the death of a worker; PostgreSQL counts the attempts that a step allows. If the run is cancelled,
 * this waits for the end of the call, which may have passed its point of no return.
 */
export async function callTool(
  run: RunInput,
  step: SkeletonStep,
  itemIndex: number | null,
  history: CallHistory,
): Promise<CallResult> {
  const key: EffectKey = { runId: run.runId, stepId: step.id, itemIndex: itemIndex ?? -1 }
  if (step.quick) {
    const quick = quickCall(step, itemIndex)
    const result = await uncancelled(() => resultOf(() => history.local(() => quick(key))))
    if (result.kind !== 'again') return result
    if (result.afterMilliseconds > 0)
      await sleep(result.afterMilliseconds, { summary: `until the next try of ${step.id}` })
  }
  history.records()
  const result = await resultOf(() => ordinaryCall(run, step, itemIndex)(key))
  // Temporal has given up the ordinary activity. The details are in the rows of the call.
  return result.kind === 'again' ? { kind: 'ended', outcome: 'failed' } : result
}

function quickCall(step: SkeletonStep, itemIndex: number | null): ToolActivity {
  const tools = proxyLocalActivities<Tools>({
    startToCloseTimeout: step.timeoutSeconds * 1_000 + localGraceMilliseconds,
    summary: summaryOf(step, itemIndex),
    retry: { maximumAttempts: 1 },
  })
  return tools[step.activity] as ToolActivity
}

function ordinaryCall(run: RunInput, step: SkeletonStep, itemIndex: number | null): ToolActivity {
  const tools = proxyActivities<Tools>({
    activityId: itemIndex === null ? step.id : `${step.id}#${itemIndex}`,
    startToCloseTimeout: (step.timeoutSeconds + 60) * 1_000,
    heartbeatTimeout: run.heartbeatSeconds * 1_000,
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    summary: summaryOf(step, itemIndex),
    retry: {
      initialInterval: '500ms',
      backoffCoefficient: 2,
      maximumInterval: '10s',
      maximumAttempts: 100_000,
    },
  })
  return tools[step.activity] as ToolActivity
}

/** Its worker stopped, the call took too long, or it must be tried again later. */
interface Again {
  readonly kind: 'again'
  readonly afterMilliseconds: number
}

async function resultOf(call: () => Promise<StepDone>): Promise<CallResult | Again> {
  try {
    const { outcome } = await call()
    return { kind: 'done', outcome }
  } catch (error) {
    // A worker that stops cancels its local activities, although nobody cancelled the run.
    if (isCancellation(error) && CancellationScope.current().consideredCancelled) throw error
    // The SDK wraps the failure of an ordinary activity, but not the failure of a local activity.
    return readFailure(error instanceof ActivityFailure ? error.cause : error)
  }
}

function readFailure(failure: unknown): CallResult | Again {
  if (!(failure instanceof ApplicationFailure)) return { kind: 'again', afterMilliseconds: 0 }
  const { type, details } = failure
  if (type === failureTypes.approvalRequired || type === failureTypes.waiting) {
    const held = details?.[0] as HeldDetails | undefined
    return { kind: held?.waitsFor ?? 'approval', expiresAt: held?.expiresAt ?? null }
  }
  if (type === failureTypes.unknownOutcome) return { kind: 'resolution', expiresAt: null }
  if (type === failureTypes.ended)
    return { kind: 'ended', outcome: (details?.[0] as EndedDetails | undefined)?.outcome ?? 'failed' }
  if (type === failureTypes.unavailable)
    return {
      kind: 'again',
      afterMilliseconds: (details?.[0] as AgainDetails | undefined)?.afterMilliseconds ?? 0,
    }
  return { kind: 'ended', outcome: 'failed' }
}

/**
 * Throws CancelledFailure if the scope is already cancelled. Otherwise the activity runs to its end.
 *
 * No local activity is ever cancelled. If one has ended and the workflow has not read the result yet, the SDK
 * lets a cancellation fail the workflow task. The run then stands still for seconds or even minutes. Every
 * local activity ends soon anyway: quick calls have a time limit.
 */
export async function uncancelled<T>(activity: () => Promise<T>): Promise<T> {
  if (CancellationScope.current().consideredCancelled)
    throw new CancelledFailure('the run has been cancelled')
  return CancellationScope.nonCancellable(activity)
}
