import { openIntentText } from './open-intent.ts'

/**
 * Marks a call as sent if it may act now and its connection is active. `answer` is `yes` if the call was marked.
 * Otherwise `answer` is the reason: `changed`, `superseded` or `disconnected`. Parameters 1 to 6 are the parameters of
 * `openIntentText`. Parameter 7 is the id and address of the call's connection, or null if the call uses no connection.
 */
export const markSentText = `
  with open as (${openIntentText}), call as (
    select same, coalesce((select c.status = 'active' from connections c where c.id = split_part($7, ' ', 1)),
                          $7 is null or $7 not like 'con\\_%') as connected
    from open
  ), marked as (
    -- A call that is sent again keeps the time of its first request: its key counts from then.
    update effects e set state = 'sent', sent_at = coalesce(e.sent_at, clock_timestamp()), sent_with = $7,
      bodies = e.bodies + (not e.body_counted)::int, body_counted = true
    from runs r, call where call.same and call.connected and r.id = e.run_id and e.run_id = $1 and e.step_id = $2
      and e.item_index = $3 and e.attempt = $4 and e.state = 'intent'
      and r.cancel_requested_at is null and r.finished_at is null
    returning 1
  )
  select case when exists(select from marked) then 'yes'
              when exists(select from call where not same) then 'changed'
              when exists(select from call where not connected) then 'disconnected'
              else 'superseded' end as answer`
