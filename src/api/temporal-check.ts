import type { Connection } from '@temporalio/client'

/** SERVING in grpc.health.v1. */
const serving = 1

/** Asks Temporal's health service, over the connection that the relay uses too. */
export function temporalCheck(connection: Connection): () => Promise<boolean> {
  return async () => {
    const { status }: { status?: number | null } = await connection.healthService.check({})
    return status === serving
  }
}
