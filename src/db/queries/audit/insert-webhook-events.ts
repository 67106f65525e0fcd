import { sql, type RawBuilder } from 'kysely'

/** Returns a CTE that inserts events for webhooks. The field `data` of a row is JSON text. */
export const insertWebhookEvents = (rows: readonly object[]): RawBuilder<unknown> => sql`published as (
    insert into webhook_events (id, organization_id, type, data, webhook_ids, created_at)
    select p.id, p.organization_id, p.type, p.data::jsonb, p.webhook_ids, p.created_at
    from json_to_recordset(${JSON.stringify(rows)}::json)
         as p(id text, organization_id text, type text, data text, webhook_ids text[], created_at timestamptz)
  )`
