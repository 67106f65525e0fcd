import { sql, type RawBuilder } from 'kysely'
import type { ApprovalKind, ApprovalStatus } from '../../contract/status.ts'
import type { Role, SideEffect } from '../../policy/types.ts'
import type { Risk } from '../schema/runs.ts'

/** A shared mail stays while one approval waits. The lock makes sure that no worker has begun to send it. */
export const dropUnsentMails = (organizationId: string, endedApprovals: readonly string[]) => sql`
  with unsent as (
    select m.id from notifications m
    where m.id in (
        select n.message_id from notifications n
        where n.organization_id = ${organizationId} and n.channel = 'mail' and n.kind = 'approval'
          and n.subject = any(${[...endedApprovals]}::text[]))
      and m.state = 'pending' and m.intent_at is null
      and not exists (
        select from notifications o join approvals a on a.id = o.subject
        where o.message_id = m.id and a.status = 'pending')
    order by m.id
    for update of m
  )
  delete from notifications where message_id in (select id from unsent)`

/**
 * The newest message of a group for each recipient, locked, so that nobody removes it. `waits`: an item of it still
 * waits for a person. `is_open`: other items can be added.
 */
export const newestMessagesOf = (given: {
  organizationId: string
  channel: string
  event: string
  kind: string
  groupKey: string | null
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

export const insertNotifications = (organizationId: string, rows: readonly object[]) => sql`
  insert into notifications (id, organization_id, channel, event, kind, subject, round, recipient, message_id,
    group_key, next_attempt_at)
  select r.id, ${organizationId}, r.channel, r.event, r.kind, r.subject, r.round, r.recipient, r."messageId",
    r."groupKey", clock_timestamp() + make_interval(secs => r."afterSeconds")
  from json_to_recordset(${JSON.stringify(rows)}::json) as r(id text, channel text,
    event text, kind text, subject text, round int, recipient text, "messageId" text, "groupKey" text,
    "afterSeconds" float8)`

export interface LeasedMail {
  readonly id: string
  readonly organization_id: string
  readonly event: string
  readonly recipient: string
  readonly attempts: number
}

/** No mail of an organization that has sent `mostOfHour` in the last hour. */
export const leaseDueMails = (given: {
  leaseSeconds: number
  mostOfOrganization: number
  mostOfHour: number
  mostOfRound: number
}) => sql<LeasedMail>`
  with due as (
    select id, next_attempt_at, row_number() over (partition by organization_id order by next_attempt_at) as place,
      (select count(*) from notifications h
       where h.organization_id = n.organization_id and h.channel = 'mail'
         and h.sent_at > clock_timestamp() - interval '1 hour') as sent
    from notifications n
    where channel = 'mail' and state = 'pending' and id = message_id and next_attempt_at <= clock_timestamp()
  )
  update notifications set attempts = attempts + 1,
    next_attempt_at = clock_timestamp() + make_interval(secs => ${given.leaseSeconds})
  where id in (
    select id from notifications
    where id in (select id from due where place <= ${given.mostOfOrganization} and sent < ${given.mostOfHour}
                 order by next_attempt_at limit ${given.mostOfRound})
      and next_attempt_at <= clock_timestamp()
    for update skip locked)
  returning id, organization_id, event, recipient, attempts`

/** A mail that stays `pending` is sent again after a minute. */
export const settleMail = (given: {
  id: string
  state: 'sent' | 'failed' | 'pending'
  error: string | null
}) => sql`
  update notifications set state = ${given.state}, last_error = ${given.error}::text,
    sent_at = case when ${given.state} = 'sent' then clock_timestamp() end,
    shown = case when ${given.state} = 'pending' then shown else wanted end,
    intent_at = case when ${given.state} = 'pending' then null else intent_at end,
    next_attempt_at = clock_timestamp() + interval '1 minute'
  where id = ${given.id}`

/**
 * From now on, the message may have been sent. Also renews the lease of the lane, and does nothing if `turn` has lost
 * it. If the message has changed, only renews the lease.
 */
export const markMessageIntent = (given: {
  organizationId: string
  turn: string
  leaseSeconds: number
  id: string
  wanted: number
  place: object
}) => sql`
  with lane as (
    update notification_lanes set leased_until = clock_timestamp() + make_interval(secs => ${given.leaseSeconds}::float8)
    where organization_id = ${given.organizationId} and channel = 'slack' and turn = ${given.turn}
      and leased_until > clock_timestamp()
    returning organization_id)
  update notifications set intent_at = clock_timestamp(), attempts = attempts + 1, place = ${JSON.stringify(given.place)}
  where id = ${given.id} and wanted = ${given.wanted} and intent_at is null and exists (select from lane)`

export interface ApprovalRow {
  readonly id: string
  readonly kind: ApprovalKind
  readonly status: ApprovalStatus
  readonly is_over: boolean
  readonly superseded_by: string | null
  readonly run_id: string | null
  readonly step_id: string | null
  readonly item_index: number | null
  readonly item_count: number | null
  readonly session_id: string | null
  readonly tool: string | null
  readonly destination: string | null
  readonly workflow_name: string | null
  readonly agent_name: string | null
  readonly rule_name: string | null
  readonly labels: readonly string[]
  readonly risk: Risk
  readonly requested_by: string
  readonly authors: readonly string[]
  readonly requester_email: string
  readonly approver: 'admin' | 'owner'
  readonly approvals_needed: number
  readonly created_at: Date
  readonly expires_at: Date | null
  readonly votes: readonly {
    readonly user_id: string
    readonly email: string
    /** The voter's role now; null if the voter has left. */
    readonly role: Role | null
    readonly decision: 'approve' | 'reject'
    readonly changes_requested: boolean
  }[]
}

/** `where` and `isOver` are conditions with the alias `a` of `approvals`. */
export const selectApprovalSubjects = (given: {
  organizationId: string
  isOver: RawBuilder<boolean>
  where: RawBuilder<unknown>
}) => sql<ApprovalRow>`
  select a.id, a.kind, a.status, ${given.isOver} as is_over, a.superseded_by, a.run_id,
    a.step_id, a.item_index, t.item_count, a.session_id, a.tool, a.destination, w.name as workflow_name, s.agent_name, a.rule_name,
    a.labels, a.risk, a.requested_by, a.authors, u.email as requester_email, a.approver, a.approvals_needed, a.created_at, a.expires_at,
    coalesce((select json_agg(json_build_object('user_id', v.user_id, 'email', p.email, 'role', m.role,
                                                'decision', v.decision, 'changes_requested', v.changes_requested)
                              order by v.at)
              from approval_votes v join users p on p.id = v.user_id
                left join memberships m on m.organization_id = a.organization_id and m.user_id = v.user_id
              where v.approval_id = a.id), '[]') as votes
  from approvals a join users u on u.id = a.requested_by
    left join workflows w on w.id = a.workflow_id
    left join agent_sessions s on s.id = a.session_id
    left join run_steps t on t.run_id = a.run_id and t.step_id = a.step_id
  where a.organization_id = ${given.organizationId} and ${given.where}
  order by a.id`

export interface CallRow {
  readonly run_id: string
  readonly step_id: string
  readonly item_index: number
  readonly item_count: number | null
  readonly tool: string
  readonly side_effect: SideEffect | null
  readonly destination: string | null
  readonly state: string
  readonly attempt: number
  readonly resolved: boolean
  readonly run_ended: boolean
  readonly workflow_name: string
  readonly labels: readonly string[]
  readonly requested_by: string
  readonly requester_email: string
  readonly sent_at: Date | null
  readonly created_at: Date
}

/** `rounds` has the attempt that the message is about for each call, or null for the newest one. */
export const selectCallSubjects = (given: {
  organizationId: string
  runIds: readonly string[]
  stepIds: readonly string[]
  itemIndexes: readonly number[]
  rounds: readonly (number | null)[]
}): RawBuilder<CallRow & { readonly round: number }> => sql`
  select e.run_id, e.step_id, e.item_index, t.item_count, e.tool, d.side_effect, d.destination, e.state, e.attempt,
    coalesce(k.round, e.attempt) as round, e.resolved_outcome is not null as resolved,
    r.finished_at is not null as run_ended, w.name as workflow_name, e.labels, r.requested_by, r.requester_email,
    e.sent_at, r.created_at
  from unnest(${given.runIds}::text[], ${given.stepIds}::text[],
              ${given.itemIndexes}::int[], ${given.rounds}::int[])
         as k(run_id, step_id, item_index, round)
    join effects e on e.run_id = k.run_id and e.step_id = k.step_id and e.item_index = k.item_index
    join runs r on r.id = e.run_id
    join workflows w on w.id = r.workflow_id
    left join decisions d on d.id = e.decision_id
    left join run_steps t on t.run_id = e.run_id and t.step_id = e.step_id
  where r.organization_id = ${given.organizationId}`

/**
 * A lane is the right to send an organization's messages. Takes lanes that have due messages, are not paused and are
 * not held. The caller holds those in `own` already.
 */
export const takeDueLanes = (given: {
  turn: string
  leaseSeconds: number
  own: readonly string[]
  limit: number
}): RawBuilder<{ readonly organization_id: string }> => sql`
  insert into notification_lanes as l (organization_id, channel, turn, leased_until)
  select due.organization_id, 'slack', ${given.turn}, clock_timestamp() + make_interval(secs => ${given.leaseSeconds}::float8)
  from (select n.organization_id from notifications n
          left join notification_lanes k on k.organization_id = n.organization_id and k.channel = 'slack'
        where n.channel = 'slack' and n.shown < n.wanted and n.id = n.message_id
          and n.next_attempt_at <= clock_timestamp() and n.organization_id <> all(${given.own}::text[])
          and coalesce(greatest(k.leased_until, k.paused_until) <= clock_timestamp(), true)
        group by n.organization_id, k.paused_until
        -- Organizations take turns: the one whose last turn ended first comes first.
        order by k.paused_until nulls first, n.organization_id limit ${given.limit}) as due
  on conflict (organization_id, channel) do update set turn = excluded.turn, leased_until = excluded.leased_until
    where coalesce(greatest(l.leased_until, l.paused_until) <= clock_timestamp(), true)
  returning organization_id`
