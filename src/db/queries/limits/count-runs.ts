import { sql, type RawBuilder } from 'kysely'

export interface Counted {
  /** The run `nthNewest` of the last hour, from 0 on. The next can be accepted an hour after it. */
  leaving: Date | null
  spent: number
  next_month: Date
  taken: number
  waiting: number
}

/** With the cost of this calendar month (UTC). */
export const countRuns = (given: {
  readonly organizationId: string
  readonly now: Date
  readonly nthNewest: number
}): RawBuilder<Counted> => sql`
  select
    (select created_at from runs
     where organization_id = ${given.organizationId} and created_at > ${given.now}::timestamptz - interval '1 hour'
     order by created_at desc offset ${given.nthNewest} limit 1) as leaving,
    (select coalesce(sum(cost), 0)::float8 from runs
     where organization_id = ${given.organizationId} and cost > 0
       and created_at >= date_trunc('month', ${given.now}::timestamptz, 'UTC')) as spent,
    date_trunc('month', ${given.now}::timestamptz, 'UTC') + interval '1 month' as next_month,
    (select count(*)::int from runs where organization_id = ${given.organizationId} and slot = 'taken') as taken,
    (select count(*)::int from runs where organization_id = ${given.organizationId} and slot in ('queued', 'waits')) as waiting`
