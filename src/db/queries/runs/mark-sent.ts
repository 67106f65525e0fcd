/**
 * If the attempt may still act. `same`: its decision is still valid, because the policy version and the requester's
 * role are the same, and nothing is frozen. Parameters: run, step, item, attempt, policy version, role.
 */
export const openIntentText = `
  select h.frozen is null and h.policy_version = $5 and m.role is not distinct from $6 as same
  from effects e join runs r on r.id = e.run_id
    join chain_head h on h.organization_id = r.organization_id
    left join memberships m on m.organization_id = r.organization_id and m.user_id = r.requested_by
  where e.run_id = $1 and e.step_id = $2 and e.item_index = $3 and e.attempt = $4 and e.state = 'intent'
    and r.cancel_requested_at is null and r.finished_at is null`

/**
 * If the call may act now and its connection is active. Otherwise `answer` is the reason. The first six parameters are
 * those of `openIntentText`, the seventh is the id and address of the call's connection, or null.
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
