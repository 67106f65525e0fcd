import { sql, type RawBuilder } from 'kysely'

export interface Counted {
  /**
   * When the run at position `nthNewest` was accepted; null if the last hour has fewer runs. The next run can be
   * accepted an hour after this time.
   */
  leaving: Date | null
  spent: number
  next_month: Date
  taken: number
  waiting: number
}

/**
 * Counts an organization’s taken slots, and the runs that wait for a slot. Adds up the cost of this calendar month
 * (UTC). Also reads when the run at position `nthNewest` was accepted (`leaving`). Position 0 is the newest run of the
 * last hour.
 */
export const countRuns = ({
  organizationId,
  now,
  nthNewest,
}: {
  readonly organizationId: string
  readonly now: Date
  readonly nthNewest: number
}): RawBuilder<Counted> => sql`
  select
    (select created_at from runs
     where organization_id = ${organizationId} and created_at > ${now}::timestamptz - interval '1 hour'
     order by created_at desc offset ${nthNewest} limit 1) as leaving,
    (select coalesce(sum(cost), 0)::float8 from runs
     where organization_id = ${organizationId} and cost > 0
       and created_at >= date_trunc('month', ${now}::timestamptz, 'UTC')) as spent,
    date_trunc('month', ${now}::timestamptz, 'UTC') + interval '1 month' as next_month,
    (select count(*)::int from runs where organization_id = ${organizationId} and slot = 'taken') as taken,
    (select count(*)::int from runs where organization_id = ${organizationId} and slot in ('queued', 'waits')) as waiting`
