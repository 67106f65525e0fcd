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

export interface DueMail {
  readonly id: string
  readonly organization_id: string
  readonly event: string
  readonly recipient: string
  readonly attempts: number
}

/** None if the organization has sent `mostOfHour` in the last hour. Counts the attempt. */
export const takeDueMails = (given: {
  readonly organizationId: string
  readonly most: number
  readonly mostOfHour: number
}): RawBuilder<DueMail> => sql`
  update notifications set attempts = attempts + 1
  where id in (
    select id from notifications
    where organization_id = ${given.organizationId} and channel = 'mail' and state = 'pending' and id = message_id
      and next_attempt_at <= clock_timestamp()
      and (select count(*) from notifications where organization_id = ${given.organizationId} and channel = 'mail'
             and sent_at > clock_timestamp() - interval '1 hour') < ${given.mostOfHour}
    order by next_attempt_at limit ${given.most} for update)
  returning id, organization_id, event, recipient, attempts`

/** Seconds; null: no mail waits. */
export const nextDueMail = (organizationId: string): RawBuilder<{ readonly due_in: number | null }> => sql`
  select extract(epoch from min(next_attempt_at) - clock_timestamp())::float8 as due_in from notifications
  where organization_id = ${organizationId} and channel = 'mail' and state = 'pending' and id = message_id`

/** Changes nothing if another turn has taken the mail since. One that stays `pending` is sent again after `pause` seconds. */
export const settleMail = (given: {
  readonly id: string
  /** The count of this turn's attempt. */
  readonly attempts: number
  readonly state: 'sent' | 'failed' | 'pending'
  readonly error: string | null
  readonly pause: number
}): RawBuilder<unknown> => sql`
  update notifications set state = ${given.state}, last_error = ${given.error}::text,
    sent_at = case when ${given.state} = 'sent' then clock_timestamp() end,
    shown = case when ${given.state} = 'pending' then shown else wanted end,
    intent_at = case when ${given.state} = 'pending' then null else intent_at end,
    next_attempt_at = clock_timestamp() + make_interval(secs => ${given.pause}::float8)
  where id = ${given.id} and state = 'pending' and attempts = ${given.attempts}`
