import type { temporal } from '@temporalio/proto'
import type { Stack } from './worker-fixture.ts'

type History = temporal.api.history.v1.IHistory

/** The histories that a run has had, in their order: each but the last went on in the next. */
export async function historiesOf(stack: Stack, runId: string): Promise<History[]> {
  const histories: History[] = []
  for (let id = await currentHistory(stack, runId); id !== '';) {
    const history = await stack.client.workflow.getHandle(runId, id).fetchHistory()
    histories.unshift(history)
    id = history.events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? ''
  }
  return histories
}

/** Temporal's own id of the history that the run is in, or was last. */
const currentHistory = async (stack: Stack, runId: string): Promise<string> =>
  (await stack.client.workflow.getHandle(runId).describe()).runId

/** Ids of the calls that a history scheduled, `step` or `step#item`, in their order. */
export const callsIn = (history: History): string[] =>
  (history.events ?? []).flatMap((event) => event.activityTaskScheduledEventAttributes?.activityId ?? [])
