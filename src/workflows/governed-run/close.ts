import { ApplicationFailure, sleep } from '@temporalio/workflow'
import { endMessage, type FinalStatus } from '../../contract/messages.ts'

/**
 * A run is first cancelled in the database. Then the outbox delivers the cancellation to Temporal. The workflow waits
 * at most this long for the delivery.
 */
const patience = '1 minute'

/**
 * Closes the workflow with the status of its run, so that Temporal's list is correct. `completed` becomes Completed,
 * `cancelled` becomes Canceled, and every other status becomes Failed. If the cancellation does not arrive in time,
 * `cancelled` also becomes Failed. The type of the failure is the status of the run. The message names the step that
 * ended the run, and never contains a value.
 */
export async function closeAs(status: FinalStatus, stepId: string | undefined): Promise<void> {
  if (status === 'completed') return
  // `sleep` throws once the workflow is cancelled. Temporal closes only a cancelled workflow as Canceled.
  if (status === 'cancelled') await sleep(patience, { summary: 'until the cancellation arrives' })
  throw ApplicationFailure.create({
    type: status,
    message: endMessage(status, stepId),
    nonRetryable: true,
  })
}
