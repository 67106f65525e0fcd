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
  type Waiting,
} from '../../contract/messages.ts'

export type CallResult =
  { readonly kind: 'done' } | { readonly kind: 'ended'; readonly outcome: EndedDetails['outcome'] } | Waiting

type ToolActivity = ActivityFunction<[StepRef], StepDone>

/**
 * Schedules one call once. Its activity id is what operators see: `step#item`. Temporal's own retries serve outages and
 * dead workers; the attempts that a step allows are counted in Postgres. A cancelled call is waited for: past its point
 * of no return it comes to its end.
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
    summary: `${step.tool} for step ${step.id}${itemIndex === null ? '' : `, item ${itemIndex}`}`,
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
    // Anything else that Temporal gave up on: the rows tell the rest, the run ends as failed.
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
