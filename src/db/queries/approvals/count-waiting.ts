import { sql, type RawBuilder } from 'kysely'
import type { ApprovalKind } from '../../../contract/status.ts'
import type { Risk } from '../../schema/runs.ts'

/** A group has one kind, rule, requester or risk level, the only field that is set. The total has none. */
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

/** In total, by kind, rule, requester and risk level: lists of at most `mostEntries` + 1 rows, the largest first. */
export const countWaitingApprovals = (given: {
  readonly organizationId: string
  readonly mostEntries: number
}): RawBuilder<WaitingCount> => sql`
  with counted as (
    select kind, rule_id, max(rule_name) as rule_name, requested_by, level, count(*)::int as count,
      grouping(kind) as k, grouping(rule_id) as r, grouping(requested_by) as p, grouping(level) as l
    from (select kind, rule_id, rule_name, requested_by, risk->>'level' as level from approvals
          where organization_id = ${given.organizationId} and status = 'pending') as waiting
    group by grouping sets ((kind), (rule_id), (requested_by), (level), ()))
  select kind, rule_id, rule_name, requested_by, u.email, level, count, k + r + p + l = 4 as is_total
  from (select *, row_number() over (partition by k, r, p, l order by count desc) as place from counted) as c
    left join users u on u.id = c.requested_by
  where place <= ${given.mostEntries + 1} order by count desc, rule_name, u.email`
