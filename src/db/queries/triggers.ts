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
        join triggers t on t.id = f.trigger_id
        where f.trigger_id = ${triggerId} and f.state in ('started', 'failed') and f.created_at >= ${since}
          -- A poll that worked ends the row of those that failed.
          and (t.kind <> 'poll' or f.delivery_id is not null or t.polled_at is null or f.created_at > t.polled_at)
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

/**
 * Returns those of the items that are known. Notes that they are still there, and forgets others: old ones, and the
 * oldest beyond `mostRemembered`.
 */
export const keepSeenItems = (
  triggerId: string,
  items: readonly string[],
  most: { readonly rememberedDays: number; readonly mostRemembered: number },
): RawBuilder<{ readonly item: string }> => sql`
  with here as (
    update trigger_items set seen_at = now()
    where trigger_id = ${triggerId} and item = any(${items}::text[]) and seen_at < now() - interval '1 day'
  ), gone as (
    select item, seen_at, row_number() over (order by seen_at desc, item) as place
    from trigger_items where trigger_id = ${triggerId} and item not in (select unnest(${items}::text[]))
  ), forgotten as (
    delete from trigger_items where trigger_id = ${triggerId} and item in (
      select item from gone where seen_at < now() - make_interval(days => ${most.rememberedDays})
                                or place > ${most.mostRemembered - items.length})
  )
  select item from trigger_items where trigger_id = ${triggerId} and item = any(${items}::text[])`

export const addItems = (
  { organizationId }: { readonly organizationId: string },
  triggerId: string,
  items: readonly string[],
): RawBuilder<unknown> => sql`
  insert into trigger_items (trigger_id, organization_id, item, seen_at)
  select ${triggerId}, ${organizationId}, item, now() from unnest(${items}::text[]) as item`
