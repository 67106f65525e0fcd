import { sql, type RawBuilder } from 'kysely'

export interface LeasedMail {
  readonly id: string
  readonly organization_id: string
  readonly event: string
  readonly recipient: string
  readonly attempts: number
}

/**
 * Takes leases on at most `mostOfRound` due mails, and on at most `mostOfOrganization` due mails of each organization.
 * Takes no lease on a mail of an organization that has sent `mostOfHour` mails in the last hour.
 */
export const leaseDueMails = ({
  leaseSeconds,
  mostOfOrganization,
  mostOfHour,
  mostOfRound,
}: {
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
    next_attempt_at = clock_timestamp() + make_interval(secs => ${leaseSeconds})
  where id in (
    select id from notifications
    where id in (select id from due where place <= ${mostOfOrganization} and sent < ${mostOfHour}
                 order by next_attempt_at limit ${mostOfRound})
      and next_attempt_at <= clock_timestamp()
    for update skip locked)
  returning id, organization_id, event, recipient, attempts`
