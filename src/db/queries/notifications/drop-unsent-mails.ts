import { sql, type RawBuilder } from 'kysely'

/**
 * Deletes the mails about these approvals that have not left. A mail that several approvals share stays while one of
 * them waits. The lock on a mail makes sure that no worker has begun to send it.
 */
export const dropUnsentMails = (
  organizationId: string,
  endedApprovals: readonly string[],
): RawBuilder<unknown> => sql`
  with unsent as (
    select m.id from notifications m
    where m.id in (
        select n.message_id from notifications n
        where n.organization_id = ${organizationId} and n.channel = 'mail' and n.kind = 'approval'
          and n.subject = any(${[...endedApprovals]}::text[]))
      and m.state = 'pending' and m.intent_at is null
      and not exists (
        select from notifications o join approvals a on a.id = o.subject
        where o.message_id = m.id and a.status = 'pending')
    order by m.id
    for update of m
  )
  delete from notifications where message_id in (select id from unsent)`
