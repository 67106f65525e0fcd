import { sql, type RawBuilder } from 'kysely'

const isFree = sql`(leased_until is null or leased_until <= clock_timestamp())`

/**
 * Takes leases on webhooks that have a due delivery. The webhook that has waited longest comes first. One organization
 * has at most `mostOfOrganization` leases at a time. If `isAiling` is true, takes leases only on webhooks whose last
 * attempt failed or was answered slowly. Otherwise takes leases only on the other webhooks.
 */
export const leaseDueWebhooks = ({
  isAiling,
  mostOfOrganization,
  leaseSeconds,
  limit,
}: {
  readonly isAiling: boolean
  readonly mostOfOrganization: number
  readonly leaseSeconds: number
  readonly limit: number
}): RawBuilder<{ readonly id: string; readonly organization_id: string }> => sql`
  with busy as (
    select organization_id, count(*) as places from webhooks
    where leased_until > clock_timestamp() group by organization_id
  ), due as (
    select id, organization_id, due_at, failures > 0 or is_slow as is_ailing,
           row_number() over (partition by organization_id order by failures > 0 or is_slow, due_at, id) as place
    from webhooks
    where active and due_at <= clock_timestamp() and ${isFree}
  ), chosen as (
    select id from due left join busy using (organization_id)
    where place + coalesce(places, 0) <= ${mostOfOrganization} and is_ailing = ${isAiling}
    order by due_at limit ${limit}
  )
  update webhooks set leased_until = clock_timestamp() + make_interval(secs => ${leaseSeconds})
  where id in (select id from webhooks where id in (select id from chosen) and ${isFree} for update skip locked)
  returning id, organization_id`
