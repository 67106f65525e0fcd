import type { Connection } from '@temporalio/client'

/** The status `SERVING` of the protocol grpc.health.v1. */
const serving = 1

/** A check that takes longer than this counts as failed. */
const patienceMilliseconds = 2_000

/**
 * Returns a function that asks Temporal's health service over `connection`. The function returns true if Temporal
 * answers `SERVING`. It throws if Temporal cannot be reached.
 */
export function temporalCheck(connection: Connection): () => Promise<boolean> {
  return async () => {
    const { status }: { status?: number | null } = await connection.withDeadline(
      Date.now() + patienceMilliseconds,
      () => connection.healthService.check({}),
    )
    return status === serving
  }
}
