import { sql, type RawBuilder } from 'kysely'

/**
 * Reads the newest message of a group for each recipient. `waits` is true if an item of the message still waits for a
 * person. `is_open` is true if other items can be added to the message. Locks the messages, so that no other
 * transaction removes them.
 */
export const newestMessagesOf = ({
  organizationId,
  channel,
  event,
  kind,
  groupKey,
}: {
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
    where organization_id = ${organizationId} and channel = ${channel} and event = ${event} and kind = ${kind}
      and group_key = ${groupKey} and id = message_id
    group by recipient)
  for update of m`
