import {
  ActivityCancellationType,
  ActivityFailure,
  ApplicationFailure,
  isCancellation,
  proxyActivities,
  type ActivityFunction,
} from '@temporalio/workflow'
import {
  failureTypes,
  type EndedDetails,
  type HeldDetails,
  type RunInput,
  type SkeletonStep,
  type StepDone,
  type StepRef,
  type WaitReason,
} from '../../contract/messages.ts'

export type CallResult =
  | { readonly kind: 'done' }
  | { readonly kind: 'ended'; readonly outcome: EndedDetails['outcome'] }
  | WaitReason

/** The text beside the call in Temporal's UI. */
function summaryOf({ summary, tool, id }: SkeletonStep, itemIndex: number | null): string {
  const item = itemIndex === null ? '' : `, item ${itemIndex}`
  return `${summary ?? `${tool} for step ${id}`}${item}`
}

type ToolActivity = ActivityFunction<[StepRef], StepDone>

/**
 * Schedules one call once. Operators see its activity id, `step#item`. Temporal's own retries are for outages and
 * dead workers; the attempts that a step allows are counted in PostgreSQL. After a cancellation it waits for the call
 * to end, since the call may have passed its point of no return.
 */
export async function callTool(
  run: RunInput,
  step: SkeletonStep,
  itemIndex: number | null,
): Promise<CallResult> {
  const activities = proxyActivities<Record<string, ToolActivity>>({
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
  try {
    const call = activities[step.tool] as ToolActivity
    await call({ runId: run.runId, stepId: step.id, itemIndex })
    return { kind: 'done' }
  } catch (error) {
    const failure = error instanceof ActivityFailure ? error.cause : undefined
    if (isCancellation(error) || failure === undefined) throw error
    // Temporal gave up for another reason: the rows have the details, and the run ends as failed.
    if (!(failure instanceof ApplicationFailure)) return { kind: 'ended', outcome: 'failed' }
    if (failure.type === failureTypes.approvalRequired) {
      const held = failure.details?.[0] as HeldDetails | undefined
      return { kind: held?.waitsFor ?? 'approval', expiresAt: held?.expiresAt ?? null }
    }
    if (failure.type === failureTypes.unknownOutcome) return { kind: 'resolution', expiresAt: null }
    if (failure.type === failureTypes.ended)
      return {
        kind: 'ended',
        outcome: (failure.details?.[0] as EndedDetails | undefined)?.outcome ?? 'failed',
      }
    return { kind: 'ended', outcome: 'failed' }
  }
}
