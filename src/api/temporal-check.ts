import type { Connection } from '@temporalio/client'

/** Asks Temporal's health service, over the connection that the relay uses too. */
export function temporalCheck(connection: Connection): () => Promise<boolean> {
  return async () => {
    const { status } = await connection.healthService.check({})
    return status === 1
  }
}
