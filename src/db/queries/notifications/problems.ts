import { sql, type RawBuilder } from 'kysely'

/** SQL for the membership `m`: the error of the newest message to its Slack account, if that one has failed. */
export const slackProblem: RawBuilder<string | null> = sql`(
  select case when n.state = 'failed' then coalesce(n.last_error, 'failed') end
  from notifications n
  where n.organization_id = m.organization_id and n.recipient = m.user_id and n.channel = 'slack'
    and n.state <> 'pending' and n.created_at >= m.slack_linked_at
  order by n.id desc limit 1)`
