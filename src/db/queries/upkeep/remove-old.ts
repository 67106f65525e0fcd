import { sql, type RawBuilder } from 'kysely'

/** With all their rows. A message about something that still waits stays, because it is edited when the wait ends. */
export const removeOldNotifications = (days: number, batch: number): RawBuilder<unknown> => sql`
  delete from notifications
  where message_id in (
    select m.id from notifications m
    where m.id = m.message_id and m.shown >= m.wanted
      and m.created_at < clock_timestamp() - ${days}::float8 * interval '1 day'
      and not exists (
        select from notifications n
          left join approvals a on n.kind = 'approval' and a.id = n.subject
          left join runs r on n.kind = 'call' and r.id = split_part(n.subject, '/', 1)
        where n.message_id = m.id and (a.status = 'pending' or (r.id is not null and r.finished_at is null)))
    limit ${batch} for update of m skip locked)`

export const removeValuesOfOldRuns = (
  days: number,
  batch: number,
): RawBuilder<{ readonly id: string }> => sql`
  update runs set inputs_sealed = null, result_sealed = null, stored_bytes = 0, idempotency_key = null,
    data_removed_at = clock_timestamp()
  where id in (select id from runs
               where data_removed_at is null and finished_at < clock_timestamp() - ${days}::float8 * interval '1 day'
               order by finished_at limit ${batch} for update skip locked)
  returning id`
