import { sql, type RawBuilder } from 'kysely'
import type { ApprovalKind } from '../../../contract/status.ts'

const seconds = (time: string) => sql`extract(epoch from clock_timestamp() - ${sql.raw(time)})::float8`

/** At most `mostRows` of each. Starts from open runs: ended ones keep their unknown outcomes, which become many. */
export const measureStoredState = <State>(mostRows: number): RawBuilder<State> => sql`
  with r as (select id, status, slot, created_at from runs where finished_at is null order by created_at limit ${mostRows}),
       a as (select kind, created_at,
                    case when created_at > clock_timestamp() - interval '1 minute' then 'minute'
                         when created_at > clock_timestamp() - interval '1 hour' then 'hour'
                         when created_at > clock_timestamp() - interval '1 day' then 'day' else 'older' end as age
             from approvals where status = 'pending' order by created_at limit ${mostRows}),
       u as (select 1 from r cross join lateral (
               select from effects where run_id = r.id and state = 'unknown_outcome' and resolved_outcome is null
               limit ${mostRows}) as e limit ${mostRows}),
       o as (select created_at from lanes where kind = 'temporal' limit ${mostRows})
  select (select json_agg(g) from (select status, count(*), ${seconds('min(created_at)')} as oldest from r group by status) g) as runs,
         (select count(*)::int from r where slot in ('queued', 'waits')) as slot_waits,
         (select json_agg(g) from (select kind, age, count(*), ${seconds('min(created_at)')} as oldest from a group by kind, age) g) as approvals,
         (select count(*)::int from u) as unknown,
         (select count(*)::int from o) as outbox,
         (select coalesce(${seconds('min(created_at)')}, 0) from o) as outbox_oldest`

/** The oldest of one kind; `resolution` is an unknown outcome. */
export interface LongestWait {
  readonly kind: ApprovalKind | 'resolution'
  /** null for an unknown outcome. */
  readonly approval_id: string | null
  readonly organization_id: string
  readonly workflow_id: string | null
  /** null for a call of an agent. */
  readonly run_id: string | null
  readonly step_id: string | null
  readonly item_index: number | null
  readonly session_id: string | null
  readonly waiting_seconds: number
}

/** Among the oldest `mostRows` pending approvals and open runs. */
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
