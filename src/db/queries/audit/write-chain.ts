import { sql, type RawBuilder } from 'kysely'

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
  rows: readonly { readonly kind: string; readonly run_id: string; readonly payload?: unknown }[],
): RawBuilder<unknown> => sql`told as (
    insert into outbox (kind, run_id, payload)
    select * from unnest(${rows.map((row) => row.kind)}::text[],
                         ${rows.map((row) => row.run_id)}::text[],
                         ${rows.map((row) => row.payload)}::jsonb[])
  )`

/** CTE. `base` of the CTE `moved` is the number of a run's earlier events. */
export const insertRunEvents = (
  now: Date,
  events: readonly {
    readonly runId: string
    readonly place: number
    readonly type: string
    readonly data: object
  }[],
): RawBuilder<unknown> => sql`shown as (
    insert into run_events (run_id, seq, type, at, data)
    select e.run_id, moved.base + e.place, e.type, ${now}::timestamptz, e.data
    from unnest(${events.map((event) => event.runId)}::text[], ${events.map((event) => event.place)}::int[],
                ${events.map((event) => event.type)}::text[], ${events.map((event) => JSON.stringify(event.data))}::jsonb[])
         as e(run_id, place, type, data)
    join moved on moved.id = e.run_id
  )`

/** CTE. `data` of a row is JSON text. */
export const insertWebhookEvents = (rows: readonly object[]): RawBuilder<unknown> => sql`published as (
    insert into webhook_events (id, organization_id, type, data, webhook_ids, created_at)
    select p.id, p.organization_id, p.type, p.data::jsonb, p.webhook_ids, p.created_at
    from json_to_recordset(${JSON.stringify(rows)}::json)
         as p(id text, organization_id text, type text, data text, webhook_ids text[], created_at timestamptz)
  )`
