import { sql, type RawBuilder } from 'kysely'
import type { ApprovalKind } from '../../../contract/status.ts'

/** The oldest pending approval of one kind, or the oldest unknown outcome (`resolution`). */
export interface LongestWait {
  readonly kind: ApprovalKind | 'resolution'
  /** Is null for an unknown outcome. */
  readonly approval_id: string | null
  readonly organization_id: string
  readonly workflow_id: string | null
  /** Is null for a call of an agent. */
  readonly run_id: string | null
  readonly step_id: string | null
  readonly item_index: number | null
  readonly session_id: string | null
  readonly waiting_seconds: number
}

/**
 * Reads the oldest pending approval of each kind, and the oldest unknown outcome of an open run. Considers only the
 * oldest `mostRows` approvals and the oldest `mostRows` open runs.
 */
export const longestWaits = (mostRows: number): RawBuilder<LongestWait> => sql`
  with a as (select kind, id, organization_id, workflow_id, run_id, step_id, item_index, session_id, created_at as since
             from approvals where status = 'pending' order by created_at limit ${mostRows}),
       r as (select id, workflow_id from runs where finished_at is null order by created_at limit ${mostRows}),
       u as (select 'resolution' as kind, null as id, e.organization_id, r.workflow_id, r.id as run_id, e.step_id,
                    nullif(e.item_index, -1) as item_index, null as session_id, e.since
             from r cross join lateral (
               select organization_id, step_id, item_index, coalesce(sent_at, intent_at) as since from effects
               where run_id = r.id and state = 'unknown_outcome' and resolved_outcome is null
               order by coalesce(sent_at, intent_at), step_id, item_index limit 1) as e)
  select distinct on (kind) kind, id as approval_id, organization_id, workflow_id, run_id, step_id, item_index, session_id,
         floor(extract(epoch from clock_timestamp() - since))::int as waiting_seconds
  from (select * from a union all select * from u) w where since is not null order by kind, since, id`
