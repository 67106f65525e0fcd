import { WorkflowFailedError, WorkflowNotFoundError } from '@temporalio/client'
import type { temporal } from '@temporalio/proto'
import { Worker } from '@temporalio/worker'
import { workflowBundlePath } from '../../src/programs/workflow-bundle.ts'
import { until } from '../stack/until.ts'
import type { Stack } from './worker-fixture.ts'

type History = temporal.api.history.v1.IHistory

/** The histories of a run, in their order: each but the last continued in the next. */
export async function historiesOf(stack: Stack, runId: string): Promise<History[]> {
  const histories: History[] = []
  for (let id = await currentHistory(stack, runId); id !== '';) {
    const history = await stack.client.workflow.getHandle(runId, id).fetchHistory()
    histories.unshift(history)
    id = history.events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? ''
  }
  return histories
}

/** Temporal's id of the run's current or last history. */
const currentHistory = async (stack: Stack, runId: string): Promise<string> =>
  (await stack.client.workflow.getHandle(runId).describe()).runId

/**
 * Waits until the run's workflow has closed, as Completed, Failed or Canceled. A run may end before the outbox has
 * started its workflow, so it first waits until the workflow exists.
 */
export async function closed(stack: Pick<Stack, 'client'>, runId: string, history?: string): Promise<void> {
  const handle = stack.client.workflow.getHandle(runId, history)
  const exists = (error: unknown): boolean => {
    if (error instanceof WorkflowNotFoundError) return false
    throw error
  }
  await until('the workflow exists', () => handle.describe().then(() => true, exists))
  await handle.result().catch((error: unknown) => {
    if (!(error instanceof WorkflowFailedError)) throw error
  })
}

/** Ids of the calls that a history scheduled, `step` or `step#item`, in their order. */
export const callsIn = (history: History): string[] =>
  (history.events ?? []).flatMap((event) => event.activityTaskScheduledEventAttributes?.activityId ?? [])

/** Replays each history of a run. Throws if one does not replay. */
export async function replay(stack: Stack, runId: string): Promise<void> {
  const workflowBundle = { codePath: await workflowBundlePath() }
  for (const history of await historiesOf(stack, runId))
    await Worker.runReplayHistory({ workflowBundle }, history, runId)
}
