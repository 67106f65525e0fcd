import { sql, type RawBuilder } from 'kysely'

const seconds = (time: string) => sql`extract(epoch from clock_timestamp() - ${sql.raw(time)})::float8`

/**
 * Counts open runs, pending approvals, unknown outcomes and messages of the outbox, at most `mostRows` of each. Unknown
 * outcomes of ended runs are not counted, because no person is asked about them. The rows of these calls are never
 * deleted and become many. So the statement starts from the open runs, and does not read the calls of ended runs.
 */
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
       o as (select created_at from outbox limit ${mostRows})
  select (select json_agg(g) from (select status, count(*), ${seconds('min(created_at)')} as oldest from r group by status) g) as runs,
         (select count(*)::int from r where slot in ('queued', 'waits')) as slot_waits,
         (select json_agg(g) from (select kind, age, count(*), ${seconds('min(created_at)')} as oldest from a group by kind, age) g) as approvals,
         (select count(*)::int from u) as unknown,
         (select count(*)::int from o) as outbox,
         (select coalesce(${seconds('min(created_at)')}, 0) from o) as outbox_oldest`
