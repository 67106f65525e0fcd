import { sql, type RawBuilder } from 'kysely'

/** By type, person and status, for the positions from `from` to before `to`. */
export const countSegmentEntries = (given: {
  readonly organizationId: string
  readonly segment: number
  readonly from: number
  readonly to: number
  readonly decisionTypes: readonly string[]
}): RawBuilder<unknown> => sql`
  with entries as materialized (
    select event_type, canonical::json ->> 'user_id' as user_id, canonical::json ->> 'status' as status
    from audit_events where organization_id = ${given.organizationId} and seq >= ${given.from} and seq < ${given.to}
  )
  insert into audit_counts (organization_id, event_type, user_id, status, segment, entries)
  select ${given.organizationId}::text, coalesce(event_type, ''), coalesce(user_id, ''), '', ${given.segment}::bigint, count(*)
  from entries group by grouping sets ((), (event_type), (user_id), (event_type, user_id))
  having grouping(user_id) = 1 or user_id is not null
  union all
  select ${given.organizationId}, event_type, '', status, ${given.segment}, count(*)
  from entries where event_type = any(${given.decisionTypes}) and status <> '' group by event_type, status
  on conflict do nothing`

/** Complete segments that are not counted: from `next` to before `end`. */
export const chainsToCount = (
  segmentLength: number,
  mostChains: number,
): RawBuilder<{ readonly organization_id: string; readonly next: number; readonly end: number }> => sql`
  select h.organization_id, counted.next, h.seq / ${segmentLength}::int as end
  from chain_head h cross join lateral (
    select coalesce(max(segment) + 1, 0) as next from audit_counts
    where organization_id = h.organization_id and event_type = '' and user_id = '' and status = ''
  ) as counted
  where counted.next < h.seq / ${segmentLength}::int limit ${mostChains}`

/** Binary search; `end` if no entry is so late. `time` has a fixed length, so texts are in the order of time. */
export const firstEntryFrom = (given: {
  readonly organizationId: string
  readonly end: number
  readonly time: string
}): RawBuilder<{ readonly position: number }> => {
  const isBefore = sql`coalesce(entry.timestamp < ${given.time}, false)`
  const middle = sql`(low + high) / 2`
  return sql`
  with recursive halves (low, high) as (
    select 1::bigint, ${given.end}::bigint
    union all
    select case when ${isBefore} then ${middle} + 1 else low end, case when ${isBefore} then high else ${middle} end
    from halves left join lateral (
      select timestamp from audit_events where organization_id = ${given.organizationId} and seq = ${middle}
    ) as entry on true
    where low < high
  )
  select low as position from halves where low = high`
}

export interface HeadOfChain {
  readonly organization_id: string
  readonly seq: number
  readonly hash: string
  /** The code of the entry at `seq`. */
  readonly mac: string | null
  /** The chain has this entry. */
  readonly is_whole: boolean
}

/** Chains with entries, in the order of the organizations' ids. */
export const headsAfter = (after: string, most: number): RawBuilder<HeadOfChain> => sql`
  select h.organization_id, h.seq, h.hash, e.mac, e.hash is not distinct from h.hash as is_whole
  from chain_head h
  left join audit_events e on e.organization_id = h.organization_id and e.seq = h.seq
  where h.organization_id > ${after} and h.seq > 0
  order by h.organization_id
  limit ${most}`

/** A hash is null if the chain has no entry there. */
export interface EndRow {
  /** As `chain_head` says. */
  readonly seq: number
  readonly hash: string
  /** The hash and the code of the entry at `seq`. */
  readonly last_hash: string | null
  readonly last_mac: string | null
  /** At the kept checkpoint. */
  readonly kept_hash: string | null
  /** At the positions that the process knows; null if there are none. */
  readonly known: Readonly<Record<number, string>> | null
}

export const readEnd = (
  organizationId: string,
  kept: number,
  known: readonly number[],
): RawBuilder<EndRow> => sql`
  select h.seq, h.hash, last.hash as last_hash, last.mac as last_mac, kept.hash as kept_hash,
    (select json_object_agg(e.seq, e.hash) from audit_events e
     where e.organization_id = h.organization_id and e.seq = any(${known}::bigint[])) as known
  from chain_head h
  left join audit_events last on last.organization_id = h.organization_id and last.seq = h.seq
  left join audit_events kept on kept.organization_id = h.organization_id and kept.seq = ${kept}
  where h.organization_id = ${organizationId}`

/** `now` is computed outside the subquery that locks, so it is the time after the wait for the lock. */
export const lockChain = <Head>(given: {
  readonly organizationId: string
  readonly transactionMilliseconds: number
  readonly planning: string
}): RawBuilder<Head> => sql`
  select head.*, clock_timestamp() as now, set_config('transaction_timeout', ${`${given.transactionMilliseconds}`}, true),
         set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
         set_config('plan_cache_mode', ${given.planning}, true),
         set_config('countersign.organization', ${given.organizationId}, true)
  from (select seq, hash, mac, policy_version, frozen, stored_bytes, pending_approvals
        from chain_head where organization_id = ${given.organizationId} for update) as head`

/** CTE. A column is sent as one text with line breaks, which canonical JSON has not: an array would need quoting. */
export const appendEntries = (
  entries: readonly { readonly canonical: string; readonly hash: string; readonly mac: string }[],
): RawBuilder<unknown> => sql`added as (
    insert into audit_events (canonical, hash, mac)
    select * from unnest(string_to_array(${entries.map((entry) => entry.canonical).join('\n')}, chr(10)),
                         string_to_array(${entries.map((entry) => entry.hash).join('\n')}, chr(10)),
                         string_to_array(${entries.map((entry) => entry.mac).join('\n')}, chr(10)))
  )`

export const insertMessages = (
  rows: readonly { readonly kind: string; readonly run_id: string; readonly payload: object }[],
): RawBuilder<unknown> => sql`told as (
    insert into lanes (kind, message)
    select 'temporal', message from unnest(${rows.map((row) => JSON.stringify(row))}::jsonb[]) as m(message)
  )`

/** CTE. `base` of the CTE `moved` is the number of a run's earlier events. */
export const insertRunEvents = (
  now: Date,
  events: readonly {
    readonly runId: string
    readonly position: number
    readonly type: string
    readonly data: object
  }[],
): RawBuilder<unknown> => sql`shown as (
    insert into run_events (run_id, seq, type, at, data)
    select e.run_id, moved.base + e.position, e.type, ${now}::timestamptz, e.data
    from unnest(${events.map((event) => event.runId)}::text[], ${events.map((event) => event.position)}::int[],
                ${events.map((event) => event.type)}::text[], ${events.map((event) => JSON.stringify(event.data))}::jsonb[])
         as e(run_id, position, type, data)
    join moved on moved.id = e.run_id
  )`

/** CTE. `data` of a row is JSON text. */
export const insertWebhookEvents = (rows: readonly object[]): RawBuilder<unknown> => sql`published as (
    insert into webhook_events (id, organization_id, type, data, webhook_ids, created_at)
    select p.id, p.organization_id, p.type, p.data::jsonb, p.webhook_ids, p.created_at
    from json_to_recordset(${JSON.stringify(rows)}::json)
         as p(id text, organization_id text, type text, data text, webhook_ids text[], created_at timestamptz)
  )`

/** Names of these people, if they are or were in the organization, and of its workflows. */
export const namesOf = (
  organizationId: string,
  ids: readonly string[],
): RawBuilder<{ readonly id: string; readonly name: string }> => sql`
  select u.id, case when u.name in ('', u.email) then u.email else u.name || ' <' || u.email || '>' end as name
  from users u where u.id = any(${ids}::text[]) and exists (
    select from audit_events where organization_id = ${organizationId} and user_id = u.id
    union all select from memberships where organization_id = ${organizationId} and user_id = u.id)
  union all
  select id, name from workflows where id = any(${ids}::text[]) and organization_id = ${organizationId}`

/** The first `most` people by id who have entries. Each is one step in the index by person. */
export const peopleOfChain = (
  organizationId: string,
  most: number,
): RawBuilder<{ readonly id: string }> => sql`
  with recursive people (id) as (
    select min(user_id) from audit_events where organization_id = ${organizationId}
    union all
    select (select min(user_id) from audit_events
            where organization_id = ${organizationId} and user_id > people.id) from people where people.id is not null
  )
  select id from people where id is not null limit ${most}`

/**
 * The newest freeze of the organization, or the end of one. One entry of each type is read from the index by type: the types
 * are literals, because a plan for any type reads the whole chain backwards.
 */
export const newestFreeze = (
  organizationId: string,
): RawBuilder<{ readonly at: string; readonly by: string | null; readonly reason: string }> => {
  const newest = (type: string) => sql`
    (select seq, timestamp, user_id, metadata from audit_events
     where organization_id = ${organizationId} and event_type = ${sql.lit(type)} order by seq desc limit 1)`
  return sql`
    select e.timestamp as at, u.email as by, e.metadata ->> 'reason' as reason
    from (${newest('organization.frozen')} union all ${newest('organization.unfrozen')}) e
    left join users u on u.id = e.user_id
    order by e.seq desc limit 1`
}

/** Starts of runs that wait, up to `most` of each kind. */
export const waitsForThaw = (
  organizationId: string,
  most: number,
): RawBuilder<{ readonly trigger_starts: number; readonly rerun_starts: number }> => sql`
  select
    (select count(*)::int from (
      select from triggers t join trigger_firings f on f.trigger_id = t.id
      where t.organization_id = ${organizationId} and f.state = 'waiting' limit ${most}) s) as trigger_starts,
    (select count(*)::int from (
      select from reruns r join rerun_items i on i.rerun_id = r.id
      where r.organization_id = ${organizationId} and r.ended_at is null and i.state = 'waiting' limit ${most}) s) as rerun_starts`
