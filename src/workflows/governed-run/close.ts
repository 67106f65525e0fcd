import { ApplicationFailure, sleep } from '@temporalio/workflow'
import { endMessage, type FinalStatus } from '../../contract/messages.ts'

/** How long a run that was cancelled in its rows waits for Temporal's own cancellation, which the outbox delivers. */
const patience = '1 minute'

/**
 * Closes the workflow as its run ended, so that Temporal's list tells the truth: `completed` as Completed, `cancelled`
 * as Canceled, and every other end as Failed. The failure has the end as its type. Its message adds the step that ended
 * the run, and never a value.
 */
export async function closeAs(status: FinalStatus, stepId: string | undefined): Promise<void> {
  if (status === 'completed') return
  // Throws once the workflow is cancelled: Temporal closes only such a workflow as Canceled.
  if (status === 'cancelled') await sleep(patience, { summary: 'until the cancellation arrives' })
  throw ApplicationFailure.create({
    type: status,
    message: endMessage(status, stepId),
    nonRetryable: true,
  })
}
