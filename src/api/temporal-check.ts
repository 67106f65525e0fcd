import type { Client } from '@temporalio/client'

/** Whether the Temporal server answers, over the process's one connection. */
export function temporalCheck(client: Client): () => Promise<boolean> {
  return async () => {
    await client.workflowService.getSystemInfo({})
    return true
  }
}
