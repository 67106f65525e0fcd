/**
 * Selects a call's row if the attempt may still act. `same` is true if the decision on the call is still valid: the
 * policy version and the role of the requester have not changed, and the organization is not frozen. The parameters
 * are, in this order: run, step, item, attempt, policy version, and role of the requester.
 */
export const openIntentText = `
  select h.frozen is null and h.policy_version = $5 and m.role is not distinct from $6 as same
  from effects e join runs r on r.id = e.run_id
    join chain_head h on h.organization_id = r.organization_id
    left join memberships m on m.organization_id = r.organization_id and m.user_id = r.requested_by
  where e.run_id = $1 and e.step_id = $2 and e.item_index = $3 and e.attempt = $4 and e.state = 'intent'
    and r.cancel_requested_at is null and r.finished_at is null`
