import { sql, type RawBuilder } from 'kysely'
import { wakeLanes } from '../lanes.ts'

/** Wakes their lanes. */
export const insertNotifications = (
  organizationId: string,
  rows: readonly object[],
): RawBuilder<unknown> => sql`
  with inserted as (
    insert into notifications (id, organization_id, channel, event, kind, subject, round, recipient, message_id,
      group_key, next_attempt_at)
    select r.id, ${organizationId}, r.channel, r.event, r.kind, r.subject, r.round, r.recipient, r."messageId",
      r."groupKey", clock_timestamp() + make_interval(secs => r."afterSeconds")
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(id text, channel text,
      event text, kind text, subject text, round int, recipient text, "messageId" text, "groupKey" text,
      "afterSeconds" float8)
    returning channel, organization_id, next_attempt_at
  ) ${lanesOf(sql`inserted`)}`

/** The messages in Slack must show a change. `which` is a condition on the rows of \`notifications\`. Wakes their lanes. */
export const touchMessages = (which: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  with touched as (
    update notifications set wanted = wanted + 1 where channel = 'slack' and ${which}
    returning channel, organization_id, next_attempt_at
  ) ${lanesOf(sql`touched`)}`

/** `waits`: an item still waits. `is_open`: others can be added. Locked, so that they are not removed. */
export const newestMessagesOf = (given: {
  readonly organizationId: string
  readonly channel: string
  readonly event: string
  readonly kind: string
  readonly groupKey: string | null
}): RawBuilder<{
  readonly id: string
  readonly recipient: string
  readonly is_open: boolean
  readonly waits: boolean
}> => sql`
  select m.id, m.recipient,
    m.state <> 'failed' and case m.channel
      when 'mail' then m.state = 'pending' and m.attempts = 0
      else coalesce(m.place->>'account' = (select p.slack_account from memberships p
                                           where p.organization_id = m.organization_id and p.user_id = m.recipient),
                    m.place is null)
    end as is_open,
    exists (
      select from notifications n
        left join approvals a on n.kind = 'approval' and a.id = n.subject
        left join effects e on n.kind = 'call' and n.group_key = e.run_id || '/' || e.step_id
          and n.subject = n.group_key || '/' || e.item_index and e.attempt = n.round
          and e.run_id = split_part(n.group_key, '/', 1)
      where n.message_id = m.id
        and (a.status = 'pending' or (e.state = 'unknown_outcome' and e.resolved_outcome is null))
    ) as waits
  from notifications m
  where m.id in (
    select max(id) from notifications
    where organization_id = ${given.organizationId} and channel = ${given.channel} and event = ${given.event} and kind = ${given.kind}
      and group_key = ${given.groupKey} and id = message_id
    group by recipient)
  for update of m`

/** It may have been sent from then on. Renews the lease too; only this if it has changed, else nothing. */
export const markMessageIntent = (given: {
  readonly organizationId: string
  readonly turn: string
  readonly leaseSeconds: number
  readonly id: string
  readonly wanted: number
  readonly place: object
}): RawBuilder<unknown> => sql`
  with lane as (
    update lanes set leased_until = clock_timestamp() + make_interval(secs => ${given.leaseSeconds}::float8)
    where kind = 'slack' and id = ${given.organizationId} and turn = ${given.turn} and leased_until > clock_timestamp()
    returning id)
  update notifications set intent_at = clock_timestamp(), attempts = attempts + 1, place = ${JSON.stringify(given.place)}
  where id = ${given.id} and wanted = ${given.wanted} and intent_at is null and exists (select from lane)`

/** Seconds until a message of an organization in Slack must be sent or edited; null: none must. */
export const nextDueMessage = (organizationId: string): RawBuilder<{ readonly due_in: number | null }> => sql`
  select extract(epoch from min(next_attempt_at) - clock_timestamp())::float8 as due_in from notifications
  where organization_id = ${organizationId} and channel = 'slack' and shown < wanted and id = message_id`

/** SQL: rows of \`lanes\` that \`changed\`, rows of \`notifications\`, make due. */
const lanesOf = (changed: RawBuilder<unknown>): RawBuilder<unknown> =>
  wakeLanes(sql`select channel, organization_id, organization_id, next_attempt_at from ${changed}`)
