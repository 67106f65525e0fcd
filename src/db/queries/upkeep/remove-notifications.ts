import { sql, type RawBuilder } from 'kysely'

/**
 * Removes messages that are older than `days`. If several rows of `notifications` share such a message, removes all
 * these rows. Does not remove a message about something that still waits, because this message is edited when the wait
 * ends.
 */
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
