import { ApplicationFailure, sleep } from '@temporalio/workflow'
import { endMessage, type FinalStatus } from '../../contract/messages.ts'

/** The outbox delivers a cancellation to Temporal. The workflow waits at most this long for it. */
const patience = '1 minute'

/**
 * Temporal's list shows Completed, Canceled, or Failed for every other status. Without the cancellation in
 * time, `cancelled` also becomes Failed. The failure has the status as its type, and never contains a value.
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
