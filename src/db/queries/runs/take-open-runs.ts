import { sql, type RawBuilder } from 'kysely'

export interface OpenRun {
  readonly id: string
  readonly organization_id: string
  readonly cancel_requested_at: Date | null
  readonly cancel_requested_by: string | null
  /** Keys of calls that still wait although they are decided: the signal was probably lost. Empty for the run itself. */
  readonly overdue: readonly string[]
}

/** Marks them as checked, so no two workers take the same run. */
export const takeOpenRuns = (given: {
  readonly most: number
  readonly minAgeSeconds: number
  readonly mostWoken: number
}): RawBuilder<OpenRun> => sql`
  with taken as (
    update runs set checked_at = clock_timestamp()
    where id in (
      select id from runs
      -- a \`queued\` run has no workflow yet
      where finished_at is null and slot is distinct from 'queued'
        and greatest(created_at, checked_at) < clock_timestamp() - make_interval(secs => ${given.minAgeSeconds})
      order by checked_at nulls first limit ${given.most} for update skip locked)
    returning id, organization_id, cancel_requested_at, cancel_requested_by, slot
  )
  select taken.id, taken.organization_id, taken.cancel_requested_at, taken.cancel_requested_by, array(
      select e.step_id || '#' || e.item_index from effects e
      where e.run_id = taken.id and e.state = 'unknown_outcome' and e.resolved_outcome is not null
      union all
      select coalesce(e.step_id || '#' || e.item_index, '')
      from approvals a left join effects e on e.run_id = a.run_id and e.approval_id = a.id
      where a.run_id = taken.id and a.status <> 'pending' and a.used_at is null and a.superseded_by is null
        and (e.state = 'held' or a.kind = 'run')
        -- an approved run that waits for a slot is woken with the slot
        and (taken.slot is distinct from 'waits' or a.status <> 'approved')
        and a.decided_at < clock_timestamp() - make_interval(secs => ${given.minAgeSeconds})
      limit ${given.mostWoken}
    ) as overdue
  from taken`
