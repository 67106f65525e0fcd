import { sql, type SelectQueryBuilder } from 'kysely'
import type { ApprovalKind, ApprovalStatus } from '../../contract/status.ts'
import { countingVotesOf } from '../../db/queries/approvals/read-approvals.ts'
import type { Database } from '../../db/schema/index.ts'
import type { Risk } from '../../db/schema/runs.ts'
import type { Caller } from '../access/identity.ts'
import { mayDecide, type VoteSettings } from './requirement.ts'
import { isOverSql } from './state.ts'

type Viewer = Pick<Caller, 'userId' | 'organizationId' | 'role'>

export interface ApprovalFilters {
  readonly status?: ApprovalStatus | undefined
  readonly kind?: ApprovalKind | undefined
  readonly run_id?: string | undefined
  /** Only approvals that the viewer may decide now. */
  readonly mine?: boolean | undefined
  readonly rule_id?: string | undefined
  readonly requested_by?: string | undefined
  readonly risk?: Risk['level'] | undefined
}

export function filtered<O>(
  all: SelectQueryBuilder<Database, 'approvals', O>,
  viewer: Viewer,
  filters: ApprovalFilters,
  settings: VoteSettings,
): SelectQueryBuilder<Database, 'approvals', O> {
  let query = all.where('organization_id', '=', viewer.organizationId)
  if (filters.status !== undefined) query = query.where('status', '=', filters.status)
  if (filters.kind !== undefined) query = query.where('kind', '=', filters.kind)
  if (filters.run_id !== undefined) query = query.where('run_id', '=', filters.run_id)
  if (filters.rule_id !== undefined) query = query.where('rule_id', '=', filters.rule_id)
  if (filters.requested_by !== undefined) query = query.where('requested_by', '=', filters.requested_by)
  if (filters.risk !== undefined) query = query.where(sql<boolean>`risk->>'level' = ${filters.risk}`)
  return filters.mine === true ? decidable(query, viewer, settings) : query
}

/** Pending, not expired, and the viewer can decide (`decisionRefusal`). */
function decidable<O>(
  query: SelectQueryBuilder<Database, 'approvals', O>,
  { userId, role }: Viewer,
  { allow_self_approval: allowsOwn, approval_threshold: threshold }: VoteSettings,
): SelectQueryBuilder<Database, 'approvals', O> {
  const able = (['admin', 'owner'] as const).filter((approver) => mayDecide(role, approver))
  if (able.length === 0) return query.where(sql<boolean>`false`)
  return query
    .where('status', '=', 'pending')
    .where('approver', 'in', able)
    .where(sql<boolean>`not ${isOverSql(sql<Date>`clock_timestamp()`)}`)
    .where(
      sql<boolean>`(not exists (select from approval_votes v where v.approval_id = approvals.id and v.user_id = ${userId})
        or ${countingVotesOf(allowsOwn)} >= greatest(approvals_needed, ${threshold}))`,
    )
    .$if(!allowsOwn, (others) =>
      others.where(sql<boolean>`${userId} <> all(approvals.authors || approvals.requested_by)`),
    )
}
