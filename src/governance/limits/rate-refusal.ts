import type { Metrics } from '../../shared/metrics.ts'
import type { SparseLog } from '../../shared/sparse-log.ts'
import type { Taken } from './rates.ts'

/**
 * Counts and logs a request that was refused because of a rate limit. `holderId` is the id of an organization, or of a
 * person without an organization. A refused client may go on asking. So this function logs only a few lines a minute
 * for each `holderId`.
 */
export function noteRefusal(
  { metrics, sparseLog }: { readonly metrics: Metrics; readonly sparseLog: SparseLog },
  holderId: string,
  { bucket, limit }: Taken,
  requestId: string | undefined,
): void {
  metrics.rateRefusals.inc({ limit: bucket })
  const fields = { organization_id: holderId, request_id: requestId, limit: bucket, value: limit }
  sparseLog.info(`rate ${holderId} ${bucket}`, fields, 'a request was refused over a rate limit')
}
