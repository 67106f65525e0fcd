import { sql, type RawBuilder } from 'kysely'

/** `now` is the time after the wait for the lock, because it is computed outside the subquery that locks. */
export const lockChain = <Head>(given: {
  organizationId: string
  transactionMilliseconds: number
  planning: string
}) => sql<Head>`
  select head.*, clock_timestamp() as now, set_config('transaction_timeout', ${`${given.transactionMilliseconds}`}, true),
         set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
         set_config('plan_cache_mode', ${given.planning}, true),
         set_config('countersign.organization', ${given.organizationId}, true)
  from (select seq, hash, mac, policy_version, frozen, stored_bytes, pending_approvals
        from chain_head where organization_id = ${given.organizationId} for update) as head`

/** A CTE. Each column is one text: canonical JSON has no line breaks, and an array would need quoting. */
export const appendEntries = (
  entries: readonly { readonly canonical: string; readonly hash: string; readonly mac: string }[],
) => sql`added as (
    insert into audit_events (canonical, hash, mac)
    select * from unnest(string_to_array(${entries.map((entry) => entry.canonical).join('\n')}, chr(10)),
                         string_to_array(${entries.map((entry) => entry.hash).join('\n')}, chr(10)),
                         string_to_array(${entries.map((entry) => entry.mac).join('\n')}, chr(10)))
  )`

export const insertMessages = (
  rows: readonly { readonly kind: string; readonly run_id: string; readonly payload?: unknown }[],
) => sql`told as (
    insert into outbox (kind, run_id, payload)
    select * from unnest(${rows.map((row) => row.kind)}::text[],
                         ${rows.map((row) => row.run_id)}::text[],
                         ${rows.map((row) => row.payload)}::jsonb[])
  )`

/** A CTE, beside the CTE `moved`, whose column `base` is the number of earlier events of a run. */
export const insertRunEvents = (
  now: Date,
  events: readonly {
    readonly runId: string
    readonly place: number
    readonly type: string
    readonly data: object
  }[],
) => sql`shown as (
    insert into run_events (run_id, seq, type, at, data)
    select e.run_id, moved.base + e.place, e.type, ${now}::timestamptz, e.data
    from unnest(${events.map((event) => event.runId)}::text[], ${events.map((event) => event.place)}::int[],
                ${events.map((event) => event.type)}::text[], ${events.map((event) => JSON.stringify(event.data))}::jsonb[])
         as e(run_id, place, type, data)
    join moved on moved.id = e.run_id
  )`

/** A CTE. The field `data` of a row is JSON text. */
export const insertWebhookEvents = (rows: readonly object[]) => sql`published as (
    insert into webhook_events (id, organization_id, type, data, webhook_ids, created_at)
    select p.id, p.organization_id, p.type, p.data::jsonb, p.webhook_ids, p.created_at
    from json_to_recordset(${JSON.stringify(rows)}::json)
         as p(id text, organization_id text, type text, data text, webhook_ids text[], created_at timestamptz)
  )`

/** A hash is null if the chain has no entry at that position. */
export interface EndRow {
  /** The position of the last entry, as `chain_head` names it. */
  readonly seq: number
  readonly hash: string
  /** The hash and the code of the entry at `seq`. */
  readonly last_hash: string | null
  readonly last_mac: string | null
  /** The hash of the entry at the position of the kept checkpoint. */
  readonly kept_hash: string | null
  /** The hashes of the entries at the positions that the process knows. Is null if none of these entries exists. */
  readonly known: Readonly<Record<number, string>> | null
}

export const readEnd = (organizationId: string, kept: number, known: readonly number[]) => sql<EndRow>`
  select h.seq, h.hash, last.hash as last_hash, last.mac as last_mac, kept.hash as kept_hash,
    (select json_object_agg(e.seq, e.hash) from audit_events e
     where e.organization_id = h.organization_id and e.seq = any(${known}::bigint[])) as known
  from chain_head h
  left join audit_events last on last.organization_id = h.organization_id and last.seq = h.seq
  left join audit_events kept on kept.organization_id = h.organization_id and kept.seq = ${kept}
  where h.organization_id = ${organizationId}`

export interface HeadOfChain {
  readonly organization_id: string
  readonly seq: number
  readonly hash: string
  /** The code of the entry at `seq`. */
  readonly mac: string | null
  readonly is_whole: boolean
}

/** Heads of chains that have entries, in the order of the organizations' ids. */
export const headsAfter = (after: string, most: number) => sql<HeadOfChain>`
  select h.organization_id, h.seq, h.hash, e.mac, e.hash is not distinct from h.hash as is_whole
  from chain_head h
  left join audit_events e on e.organization_id = h.organization_id and e.seq = h.seq
  where h.organization_id > ${after} and h.seq > 0
  order by h.organization_id
  limit ${most}`

/**
 * The position of the first entry at or after `time`, or `end`: a binary search. `time` is UTC in ISO 8601 with a fixed
 * number of characters, so texts have the order of times.
 */
export const firstEntryFrom = ({
  organizationId,
  end,
  time,
}: {
  organizationId: string
  end: number
  time: string
}): RawBuilder<{ readonly place: number }> => {
  const isBefore = sql`coalesce(entry.timestamp < ${time}, false)`
  const middle = sql`(low + high) / 2`
  return sql`
  with recursive halves (low, high) as (
    select 1::bigint, ${end}::bigint
    union all
    select case when ${isBefore} then ${middle} + 1 else low end, case when ${isBefore} then high else ${middle} end
    from halves left join lateral (
      select timestamp from audit_events where organization_id = ${organizationId} and seq = ${middle}
    ) as entry on true
    where low < high
  )
  select low as place from halves where low = high`
}

/** Chains with complete segments that are not counted yet: from `next` to `end` - 1. */
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

/** Counts by type, person and status. The segment has the positions from `from` to `to` - 1. */
export const countSegmentEntries = (given: {
  organizationId: string
  segment: number
  from: number
  to: number
  decisionTypes: readonly string[]
}) => sql`
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
