import { sql, type RawBuilder } from 'kysely'
import type { ApprovalKind } from '../../../contract/status.ts'
import type { Risk } from '../../schema/runs.ts'

/**
 * The number of waiting approvals in one group. All approvals of a group have the same kind, the same rule, the same
 * requester or the same risk level. Only the fields of this common value are set. The other fields are null. If
 * `is_total` is true, all waiting approvals are counted, and all these fields are null.
 */
export interface WaitingCount {
  readonly kind: ApprovalKind | null
  readonly rule_id: string | null
  readonly rule_name: string | null
  readonly requested_by: string | null
  readonly email: string | null
  readonly level: Risk['level'] | null
  readonly count: number
  readonly is_total: boolean
}

/**
 * Counts an organization's waiting approvals in total, by kind, by rule, by requester and by risk level. Each of these
 * five lists has at most `mostEntries` + 1 rows, so that the caller sees whether there are more. The largest counts
 * come first.
 */
export const countWaitingApprovals = ({
  organizationId,
  mostEntries,
}: {
  readonly organizationId: string
  readonly mostEntries: number
}): RawBuilder<WaitingCount> => sql`
  with counted as (
    select kind, rule_id, max(rule_name) as rule_name, requested_by, level, count(*)::int as count,
      grouping(kind) as k, grouping(rule_id) as r, grouping(requested_by) as p, grouping(level) as l
    from (select kind, rule_id, rule_name, requested_by, risk->>'level' as level from approvals
          where organization_id = ${organizationId} and status = 'pending') as waiting
    group by grouping sets ((kind), (rule_id), (requested_by), (level), ()))
  select kind, rule_id, rule_name, requested_by, u.email, level, count, k + r + p + l = 4 as is_total
  from (select *, row_number() over (partition by k, r, p, l order by count desc) as place from counted) as c
    left join users u on u.id = c.requested_by
  where place <= ${mostEntries + 1} order by count desc, rule_name, u.email`
