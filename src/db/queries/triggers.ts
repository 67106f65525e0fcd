import { sql, type RawBuilder } from 'kysely'

/** The people who armed the trigger and are still there, or else the owners. */
export const peopleToTell = (triggerId: string, most: number): RawBuilder<{ readonly email: string }> => sql`
  with people as (
    select u.email, u.id = any(t.armed_by) as armed, m.role from triggers t
    join memberships m on m.organization_id = t.organization_id join users u on u.id = m.user_id
    where t.id = ${triggerId} and u.email_verified and not exists (select from service_accounts s where s.id = u.id)
  )
  select email from people where armed or (role = 'owner' and not exists (select from people where armed))
  order by email limit ${most}`

/** How many of the last firings since then started nothing, or a run that went wrong. */
export const countFailures = (
  triggerId: string,
  since: Date,
  most: number,
): RawBuilder<{ readonly failures: number }> => sql`
  select count(*) filter (where state = 'failed' or status in ('failed', 'denied', 'expired'))::int as failures
  from (select f.state, r.status from trigger_firings f left join runs r on r.id = f.run_id
        where f.trigger_id = ${triggerId} and f.state in ('started', 'failed') and f.created_at >= ${since}
        order by f.id desc limit ${most}) as last`

export const removeFiringsOlderThan = (days: number, batch: number): RawBuilder<unknown> => sql`
  delete from trigger_firings where id in (
    select id from trigger_firings
    where state <> 'waiting' and created_at < clock_timestamp() - make_interval(days => ${days})
    limit ${batch} for update skip locked)`

/** Beyond the newest ones of each trigger. Those of the last hours stay, because a redelivery is known by its firing. */
export const removeFiringsBeyond = (kept: number, hours: number, batch: number): RawBuilder<unknown> => sql`
  delete from trigger_firings where id in (
    select f.id from triggers t
    cross join lateral (select id, created_at from trigger_firings where trigger_id = t.id and state <> 'waiting'
                        order by id desc offset ${kept} limit ${batch}) as f
    where f.created_at < clock_timestamp() - make_interval(hours => ${hours})
    limit ${batch})`
