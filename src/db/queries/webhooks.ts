import { sql, type RawBuilder } from 'kysely'

const isFree = sql`(leased_until is null or leased_until <= clock_timestamp())`

/**
 * The webhook that has waited longest comes first. One organization has at most `mostOfOrganization` leases at a time.
 * `isAiling`: the last attempt failed or was answered slowly.
 */
export const leaseDueWebhooks = (given: {
  isAiling: boolean
  mostOfOrganization: number
  leaseSeconds: number
  limit: number
}): RawBuilder<{ readonly id: string; readonly organization_id: string }> => sql`
  with busy as (
    select organization_id, count(*) as places from webhooks
    where leased_until > clock_timestamp() group by organization_id
  ), due as (
    select id, organization_id, due_at, failures > 0 or is_slow as is_ailing,
           row_number() over (partition by organization_id order by failures > 0 or is_slow, due_at, id) as place
    from webhooks
    where active and due_at <= clock_timestamp() and ${isFree}
  ), chosen as (
    select id from due left join busy using (organization_id)
    where place + coalesce(places, 0) <= ${given.mostOfOrganization} and is_ailing = ${given.isAiling}
    order by due_at limit ${given.limit}
  )
  update webhooks set leased_until = clock_timestamp() + make_interval(secs => ${given.leaseSeconds})
  where id in (select id from webhooks where id in (select id from chosen) and ${isFree} for update skip locked)
  returning id, organization_id`

export interface DueDelivery {
  readonly id: string
  readonly event_id: string
  readonly message: string
  readonly target_sealed: Buffer
  readonly target_version: string
}

/** The delivery that has been due for the longest time; none if the webhook is not active. */
export const nextDueDelivery = (webhookId: string) => sql<DueDelivery>`
  select d.id, d.event_id, e.message, w.target_sealed, w.target_version
  from webhooks w
  cross join lateral (
    select id, event_id from webhook_deliveries
    where webhook_id = w.id and state = 'waiting' and next_attempt_at <= clock_timestamp()
      and give_up_at > clock_timestamp()
    order by next_attempt_at limit 1
  ) as d
  join webhook_events e on e.id = d.event_id
  where w.id = ${webhookId} and w.active`

/** Returns the number of failures since the last success, and the seconds since the first of them. */
export const recordDeliveryAttempt = (given: {
  webhookId: string
  deliveryId: string
  delivered: boolean
  status: number | null
  error: string | null
  isSlow: boolean
  /** Seconds of delay that the receiver asked for. */
  retryAfter: number
  /** Seconds until the next attempt after the first failed one, the second one, and so on. The last value repeats. */
  retries: readonly number[]
}): RawBuilder<{ readonly failures: number; readonly waits: number }> => {
  const ended = given.delivered ? sql`clock_timestamp()` : sql`null`
  const next = sql`clock_timestamp() + make_interval(secs => greatest(${given.retryAfter}::float8,
    (${given.retries}::float8[])[least(attempts + 1, ${given.retries.length})]))`
  return sql`
  with delivery as (
    update webhook_deliveries set attempts = attempts + 1, last_attempt_at = clock_timestamp(),
      last_status = ${given.status}::int, last_error = ${given.error}::text,
      state = ${given.delivered ? 'delivered' : 'waiting'}, ended_at = ${ended},
      next_attempt_at = ${given.delivered ? sql`null` : next}
    where id = ${given.deliveryId} and state = 'waiting'
  )
  update webhooks set is_slow = ${given.isSlow}, failures = case when ${given.delivered} then 0 else failures + 1 end,
    failing_since = case when ${given.delivered} then null else coalesce(failing_since, clock_timestamp()) end
  where id = ${given.webhookId}
  returning failures, coalesce(extract(epoch from clock_timestamp() - failing_since), 0)::float8 as waits`
}

/** Locks events that have no message yet. Skips events that another process has locked. */
export const newWebhookEvents = <Event>(batch: number) => sql<Event>`
  select e.id, e.organization_id, e.type, e.data, e.created_at, e.webhook_ids, w.id as workflow_id,
         w.name as workflow_name, coalesce(a.requested_by, r.requested_by, s.user_id) as requested_by,
         case when a.id is null then null else json_build_object(
           'kind', a.kind, 'run_id', a.run_id, 'session_id', a.session_id, 'step_id', a.step_id,
           'item_index', a.item_index, 'tool', a.tool, 'rule_name', a.rule_name, 'risk', a.risk->>'level',
           'approver', a.approver, 'expires_at', a.expires_at,
           'changes_requested', exists (select from approval_votes v where v.approval_id = a.id and v.changes_requested)
         ) end as approval
  from webhook_events e
  left join approvals a on a.id = e.data->>'approval_id'
  left join runs r on r.id = e.data->>'run_id'
  left join agent_sessions s on s.id = e.data->>'session_id'
  left join workflows w on w.id = coalesce(e.data->>'workflow_id', a.workflow_id)
  where e.message is null
  order by e.id limit ${batch}
  for update of e skip locked`
