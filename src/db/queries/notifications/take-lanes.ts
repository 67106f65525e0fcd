import { sql, type RawBuilder } from 'kysely'

/**
 * A lane is the right to send an organization's messages. Takes lanes that have due messages, that are not paused, and
 * that no other process holds. Leaves out the lanes of the organizations in `own`, because the caller already holds
 * them.
 */
export const takeDueLanes = ({
  turn,
  leaseSeconds,
  own,
  limit,
}: {
  readonly turn: string
  readonly leaseSeconds: number
  readonly own: readonly string[]
  readonly limit: number
}): RawBuilder<{ readonly organization_id: string }> => sql`
  insert into notification_lanes as l (organization_id, channel, turn, leased_until)
  select due.organization_id, 'slack', ${turn}, clock_timestamp() + make_interval(secs => ${leaseSeconds}::float8)
  from (select n.organization_id from notifications n
          left join notification_lanes k on k.organization_id = n.organization_id and k.channel = 'slack'
        where n.channel = 'slack' and n.shown < n.wanted and n.id = n.message_id
          and n.next_attempt_at <= clock_timestamp() and n.organization_id <> all(${own}::text[])
          and coalesce(greatest(k.leased_until, k.paused_until) <= clock_timestamp(), true)
        group by n.organization_id, k.paused_until
        -- Organizations take turns: the one whose last turn ended first comes first.
        order by k.paused_until nulls first, n.organization_id limit ${limit}) as due
  on conflict (organization_id, channel) do update set turn = excluded.turn, leased_until = excluded.leased_until
    where coalesce(greatest(l.leased_until, l.paused_until) <= clock_timestamp(), true)
  returning organization_id`
