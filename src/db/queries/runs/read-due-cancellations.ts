import { sql, type RawBuilder } from 'kysely'

/** Organizations take turns: the longest waiting run of each comes first. `isDue` is a condition on `r`. */
export const readDueCancellations = (given: {
  readonly isDue: RawBuilder<unknown>
  readonly except: readonly string[]
  readonly most: number
}): RawBuilder<{ readonly id: string; readonly organization_id: string }> => sql`
  select id, organization_id from (
    select r.id, r.organization_id, r.cancel_requested_at,
      row_number() over (partition by r.organization_id order by r.cancel_requested_at) as turn
    from runs r
    where r.finished_at is null and r.cancel_requested_at is not null and r.id <> all(${given.except}) and ${given.isDue}) due
  order by turn, cancel_requested_at limit ${given.most}`
