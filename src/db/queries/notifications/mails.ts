import { sql, type RawBuilder } from 'kysely'

/** A shared mail stays while one of its approvals waits. Locked, so that no worker has begun to send it. */
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

export interface LeasedMail {
  readonly id: string
  readonly organization_id: string
  readonly event: string
  readonly recipient: string
  readonly attempts: number
}

/** No mail of an organization that has sent `mostOfHour` in the last hour. */
export const leaseDueMails = (given: {
  readonly leaseSeconds: number
  readonly mostOfOrganization: number
  readonly mostOfHour: number
  readonly mostOfRound: number
}): RawBuilder<LeasedMail> => sql`
  with due as (
    select id, next_attempt_at, row_number() over (partition by organization_id order by next_attempt_at) as place,
      (select count(*) from notifications h
       where h.organization_id = n.organization_id and h.channel = 'mail'
         and h.sent_at > clock_timestamp() - interval '1 hour') as sent
    from notifications n
    where channel = 'mail' and state = 'pending' and id = message_id and next_attempt_at <= clock_timestamp()
  )
  update notifications set attempts = attempts + 1,
    next_attempt_at = clock_timestamp() + make_interval(secs => ${given.leaseSeconds})
  where id in (
    select id from notifications
    where id in (select id from due where place <= ${given.mostOfOrganization} and sent < ${given.mostOfHour}
                 order by next_attempt_at limit ${given.mostOfRound})
      and next_attempt_at <= clock_timestamp()
    for update skip locked)
  returning id, organization_id, event, recipient, attempts`

/** A mail that stays `pending` is sent again after a minute. */
export const settleMail = (given: {
  readonly id: string
  readonly state: 'sent' | 'failed' | 'pending'
  readonly error: string | null
}): RawBuilder<unknown> => sql`
  update notifications set state = ${given.state}, last_error = ${given.error}::text,
    sent_at = case when ${given.state} = 'sent' then clock_timestamp() end,
    shown = case when ${given.state} = 'pending' then shown else wanted end,
    intent_at = case when ${given.state} = 'pending' then null else intent_at end,
    next_attempt_at = clock_timestamp() + interval '1 minute'
  where id = ${given.id}`
