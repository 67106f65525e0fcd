import { sql, type RawBuilder } from 'kysely'
import { isDecided, seconds } from './decided-columns.ts'

export interface ApprovalTotals {
  held: number
  approved: number
  rejected: number
  pending: number
  expired: number
  cancelled: number
  mean: number | null
  quantiles: number[] | null
  quick: number
}

const countOf = (status: string) => sql`count(*) filter (where status = ${status})`

/**
 * Counts approvals by status, and measures in seconds how long decisions took. The result `quick` counts the approvals
 * that were approved within `quick` seconds.
 */
export const countApprovalsByStatus = (
  mine: RawBuilder<boolean>,
  quick: number,
): RawBuilder<ApprovalTotals> => sql`
  select count(*) as held, ${countOf('approved')} as approved, ${countOf('rejected')} as rejected, ${countOf('pending')} as pending,
    ${countOf('expired')} as expired, ${countOf('cancelled')} as cancelled,
    avg(${seconds}) filter (where ${isDecided}) as mean,
    percentile_cont(array[0.5, 0.95]) within group (order by ${seconds}) filter (where ${isDecided}) as quantiles,
    count(*) filter (where status = 'approved' and decided_at - created_at <= ${quick} * interval '1 s') as quick
  from approvals where ${mine}`
