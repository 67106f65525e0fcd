import { sql, type RawBuilder } from 'kysely'

/** Inserts messages of an organization. */
export const insertNotifications = (
  organizationId: string,
  rows: readonly object[],
): RawBuilder<unknown> => sql`
  insert into notifications (id, organization_id, channel, event, kind, subject, round, recipient, message_id,
    group_key, next_attempt_at)
  select r.id, ${organizationId}, r.channel, r.event, r.kind, r.subject, r.round, r.recipient, r."messageId",
    r."groupKey", clock_timestamp() + make_interval(secs => r."afterSeconds")
  from json_to_recordset(${JSON.stringify(rows)}::json) as r(id text, channel text,
    event text, kind text, subject text, round int, recipient text, "messageId" text, "groupKey" text,
    "afterSeconds" float8)`
