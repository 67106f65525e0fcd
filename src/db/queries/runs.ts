import { sql, type RawBuilder } from 'kysely'
import type { RunStatus } from '../../contract/status.ts'
import type { Role } from '../../policy/types.ts'
import type { HeldSeat } from '../../policy/seats.ts'
import { approvalColumns, groupsByPerson, holderOfVote } from './approvals.ts'

/** A worker begins to load the values of the call. No row if the run is cancelled or has ended. */
export const countCallStart = (given: {
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number
}): RawBuilder<{ readonly starts: number }> => sql`
  insert into call_starts (run_id, step_id, item_index)
  select id, ${given.stepId}, ${given.itemIndex}::int from runs
  where id = ${given.runId} and cancel_requested_at is null and finished_at is null
  on conflict (run_id, step_id, item_index) do update
    set starts = call_starts.starts + 1, started_at = clock_timestamp()
  returning starts`

/** Calls, and items of a step, that ended with one of these outcomes. `item_index` is -1 for a step as a whole. */
export const readBadCalls = (
  runId: string,
  stepIds: readonly string[],
  bad: readonly string[],
): RawBuilder<{ readonly step_id: string; readonly item_index: number }> => sql`
  select step_id, item_index from effects
  where run_id = ${runId} and step_id = any(${stepIds}::text[]) and state = any(${bad}::text[])
  union
  select step_id, -1 from run_steps
  where run_id = ${runId} and step_id = any(${stepIds}::text[]) and status = any(${bad}::text[]) and item_count is null`

/** `verdict` is null if no person was asked about the step. `by` is a mail address; null without a vote. */
export const readStepStates = (
  runId: string,
  stepIds: readonly string[],
): RawBuilder<{
  readonly step_id: string
  readonly status: string
  readonly verdict: string | null
  readonly comment: string | null
  readonly by: string | null
}> => sql`
  select s.step_id, s.status, a.status as verdict, v.comment, v.email as by
  from run_steps s
  left join lateral (
    -- If a call was to be edited and was not, the rejection counts.
    select case kind when 'revision' then supersedes_id else id end as id,
      case when kind <> 'revision' then status when status = 'expired' then 'rejected' end as status
    from approvals
    -- A step that was taken over has the approval of the call that was made.
    where run_id = coalesce((select e.reused_from from effects e where e.run_id = s.run_id and e.step_id = s.step_id
                             and e.item_index = -1), s.run_id) and step_id = s.step_id and item_index is null and superseded_by is null and kind <> 'ask'
    order by created_at desc, id desc limit 1
  ) a on true
  left join lateral (
    select votes.comment, users.email from approval_votes votes join users on users.id = votes.user_id
    where votes.approval_id = a.id and (votes.decision = 'reject') = (a.status = 'rejected')
    order by votes.at desc, users.email limit 1
  ) v on true
  where s.run_id = ${runId} and s.step_id = any(${stepIds}::text[]) and s.finished_at is not null`

/** Calls of one step that wait for the same thing, or a run that waits as a whole. */
export interface Waiting {
  readonly run_id: string
  /** null for a whole run. */
  readonly step_id: string | null
  /** `decided`: but the call has not continued yet. */
  readonly kind: 'approval' | 'resolution' | 'slot' | 'time' | 'answer' | 'revision' | 'decided'
  readonly rule_name: string | null
  readonly approver: 'admin' | 'owner' | null
  readonly approvals_needed: number | null
  readonly seats: readonly HeldSeat[] | null
  readonly count: number
  /** The first item; -1 without `for_each`, and for a whole run. */
  readonly first: number
  /** When the first of them began to wait. */
  readonly since: Date | null
  /** With `time`: when the first of these steps goes on. */
  readonly until: Date | null
}

/** Those of several items differ, because they were held at different times. */
const withoutLater = (seats: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`(select jsonb_agg(s - 'also') from jsonb_array_elements(${seats}) as s)`

/** Calls with the same step, kind and required approval are counted together. */
export const countWaiting = (runIds: readonly string[]): RawBuilder<Waiting> => sql`
  with waiting as (
    select e.run_id, e.step_id, e.item_index, case
        when e.state = 'unknown_outcome' then
          case when e.resolved_outcome is null then 'resolution' else 'decided' end
        when e.until is not null then 'time'
        when e.wants_slot then 'slot'
        when a.status = 'pending' then case a.kind when 'ask' then 'answer' when 'revision' then 'revision' else 'approval' end
        else 'decided' end as kind, a.rule_name, a.approver, a.approvals_needed, ${withoutLater(sql`a.seats`)} as seats,
        case when e.state = 'unknown_outcome' then coalesce(e.sent_at, e.intent_at) else a.created_at end as since, e.until
    from effects e left join approvals a on a.id = e.approval_id and e.state = 'held'
    where e.run_id = any(${[...runIds]}::text[]) and e.state in ('held', 'unknown_outcome')
    union all
    select run_id, null, -1, case when status = 'pending' then 'approval' else 'decided' end, rule_name, approver,
           approvals_needed, ${withoutLater(sql`seats`)}, created_at, null::timestamptz
    from approvals
    where run_id = any(${[...runIds]}::text[]) and kind = 'run' and used_at is null and status in ('pending', 'approved')
  )
  select run_id, step_id, kind, rule_name, approver, approvals_needed, seats, count(*)::int as count,
         min(item_index)::int as first, min(since) as since, min(until) as until
  from waiting group by 1, 2, 3, 4, 5, 6, 7 order by step_id nulls first, kind, first`

/** A call that may have happened becomes `unknown_outcome` and is returned, every other one `cancelled`. */
export const endOpenEffects = <Call>(given: {
  readonly runId: string
  readonly now: Date
  readonly mayHaveHappened: RawBuilder<unknown>
}): RawBuilder<Call> => sql`
  with ended as (
    update effects set
      state = case when ${given.mayHaveHappened} then 'unknown_outcome' else 'cancelled' end,
      finished_at = case when ${given.mayHaveHappened} then null else ${given.now}::timestamptz end
    where run_id = ${given.runId} and state in ('held', 'intent', 'sent', 'retry')
    returning state, step_id, item_index, tool
  )
  select step_id, nullif(item_index, -1) as item_index, tool from ended where state = 'unknown_outcome'`

/** `had` is how it waited. */
export interface GrantedRun {
  readonly id: string
  readonly workflow_id: string
  readonly request_id: string | null
  readonly had: 'queued' | 'waits'
}

/** In the order of acceptance. A message in the outbox starts a `queued` run, or wakes another with `wakeKey`. */
export const grantFreeSlots = (given: {
  readonly organizationId: string
  readonly limit: number
  readonly wakeKey: string
}): RawBuilder<GrantedRun> => sql`
  with free as (
    select greatest(0, ${given.limit}::int - count(*)) as slots
    from runs where organization_id = ${given.organizationId} and slot = 'taken'
  ), next as (
    select id, slot from runs
    where organization_id = ${given.organizationId} and slot in ('queued', 'waits')
    order by position limit (select slots from free)
  ), granted as (
    update runs set slot = 'taken', status_reason = case
        when next.slot = 'queued' then 'the run waits for a worker'
        when runs.status = 'paused' then 'the run goes on'
        else runs.status_reason end
    from next where runs.id = next.id
    returning runs.id, runs.workflow_id, runs.request_id, next.slot as had
  ), told as (
    insert into lanes (kind, message)
    select 'temporal', jsonb_build_object(
      'kind', case when had = 'queued' then 'run.start' else 'run.wake' end, 'run_id', id,
      'payload', case when had = 'queued' then '{}'::jsonb else jsonb_build_object('key', ${given.wakeKey}::text) end)
    from granted
  )
  select * from granted`

/**
 * If the attempt may still act. `same`: its decision is still valid, because the policy version and the roles of the
 * requester and of those who typed values of the call are the same, and nothing is frozen. Parameters: run, step, item,
 * attempt, policy version, role, and roles by the id of the person.
 */
export const openIntentText = `
  select h.frozen is null and h.policy_version = $5 and m.role is not distinct from $6
    and not exists (select from jsonb_each_text(e.revision->'typed') as typed
                    left join memberships t on t.organization_id = r.organization_id and t.user_id = typed.value
                    where t.role is distinct from $7::jsonb->>typed.value) as same
  from effects e join runs r on r.id = e.run_id
    join chain_head h on h.organization_id = r.organization_id
    left join memberships m on m.organization_id = r.organization_id and m.user_id = r.requested_by
  where e.run_id = $1 and e.step_id = $2 and e.item_index = $3 and e.attempt = $4 and e.state = 'intent'
    and r.cancel_requested_at is null and r.finished_at is null`

/**
 * If the call may act now and its connection is active. Otherwise `answer` is the reason. The first seven parameters are
 * those of `openIntentText`, the eighth is the id and address of the call's connection, or null.
 */
export const markSentText = `
  with open as (${openIntentText}), call as (
    select same, coalesce((select c.status = 'active' from connections c where c.id = split_part($8, ' ', 1)),
                          $8 is null or $8 not like 'con\\_%') as connected
    from open
  ), marked as (
    -- A call that is sent again keeps the time of its first request: its key counts from then.
    update effects e set state = 'sent', sent_at = coalesce(e.sent_at, clock_timestamp()), sent_with = $8,
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

/** What can change about a call. */
export const readCallState = <Now>(given: {
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number
  readonly dependsOn: readonly string[]
}): RawBuilder<Now> => sql`
  select e.state, octet_length(e.params_sealed) as sealed_bytes, e.revision->'labels' as typed_labels,
    r.cancel_requested_at is not null or r.finished_at is not null as cancelled,
    exists(select from chain_head h where h.organization_id = r.organization_id and h.frozen is not null) as frozen,
    coalesce((select c.starts from call_starts c where c.run_id = r.id and c.step_id = ${given.stepId}
              and c.item_index = ${given.itemIndex}), 0) as starts,
    (select o.item_count from run_steps o where o.run_id = ${given.runId} and o.step_id = ${given.stepId}) as item_count,
    (select json_agg(json_build_object('step_id', s.step_id, 'labels', s.labels, 'status', s.status, 'ended', s.finished_at is not null))
     from run_steps s where s.run_id = ${given.runId} and s.step_id = any(${given.dependsOn}::text[])) as dependencies
  from runs r
  left join effects e on e.run_id = r.id and e.step_id = ${given.stepId} and e.item_index = ${given.itemIndex}
  where r.id = ${given.runId}`

/** Organizations take turns: the longest waiting run of each comes first. `isDue` is a condition on `r`. */
export const readDueCancellations = (given: {
  readonly isDue: RawBuilder<unknown>
  readonly except: readonly string[]
  readonly most: number
}): RawBuilder<{ readonly id: string; readonly organization_id: string }> => sql`
  select id, organization_id from (
    select r.id, r.organization_id, r.cancel_requested_at,
      row_number() over (partition by r.organization_id order by r.cancel_requested_at) as turn
    from runs r
    where r.finished_at is null and r.cancel_requested_at is not null and r.id <> all(${given.except}) and ${given.isDue}) due
  order by turn, cancel_requested_at limit ${given.most}`

/** The first of each step; `total` counts all. `params_sealed` only of items, up to `mostSealedBytes`. */
export const readFailedCalls = <Row>(given: {
  readonly runId: string
  readonly stepIds: readonly string[]
  readonly mostSealedBytes: number
  readonly mostFailedItems: number
}): RawBuilder<Row> => sql`
  with f as (
    select step_id, item_index,
      row_number() over (partition by step_id order by item_index) as place,
      count(*) filter (where item_index >= 0) over (partition by step_id)::int as total
    from effects
    where run_id = ${given.runId} and step_id = any(${given.stepIds}) and error is not null
      and state not in ('completed', 'cancelled', 'skipped')
  )
  select f.step_id, f.item_index, f.total, e.state, e.error, e.error_detail_sealed,
    case when octet_length(e.params_sealed) <= ${given.mostSealedBytes} and e.item_index >= 0 then e.params_sealed end
      as params_sealed
  from f join effects e on e.run_id = ${given.runId} and e.step_id = f.step_id and e.item_index = f.item_index
  where f.place <= ${given.mostFailedItems}
  order by f.step_id, f.item_index`

export interface RunLedgerRows<Run, Effect, Step, Approval> {
  /** In the organization; null if all `runs` have a slot. */
  readonly slots: { readonly taken: number; readonly waiting: number } | null
  readonly runs: Run[] | null
  readonly effects: Effect[] | null
  readonly steps: Step[] | null
  readonly approvals: Approval[] | null
  /** Present roles of requesters and voters. */
  readonly roles: { readonly user_id: string; readonly role: Role; readonly confirmed: boolean }[] | null
  /** The groups of voters. */
  readonly groups: Record<string, string[]> | null
}

interface CallKey {
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number
}

/** Locks the rows of the calls. */
export const readRunLedger = <Run, Effect, Step, Approval>(
  organizationId: string,
  keys: readonly CallKey[],
): RawBuilder<RunLedgerRows<Run, Effect, Step, Approval>> => {
  const runIds = [...new Set(keys.map((key) => key.runId))]
  return sql`
    with k as (
      select distinct * from unnest(${keys.map((key) => key.runId)}::text[], ${keys.map((key) => key.stepId)}::text[],
                           ${keys.map((key) => key.itemIndex)}::int[]) as k(run_id, step_id, item_index)
    ), r as (
      select id, workflow_id, workflow_version, requested_by, authors, risk, cancel_requested_at, finished_at, status,
             status_reason, decision_seq, stored_bytes, nodes_executed, nodes_failed, started_at,
             slot, cost, on_repeat, calls.*
      from runs cross join lateral (
        select count(*) filter (where e.state in ('held', 'unknown_outcome'))::int as waiting,
               count(*) filter (where k.run_id is null and e.state in ('intent', 'sent', 'retry'))::int as others_under_way,
               count(*) filter (where k.run_id is null and e.wants_slot)::int as others_wanting
        from effects e left join k using (run_id, step_id, item_index)
        where e.run_id = runs.id and e.state in ('held', 'unknown_outcome', 'intent', 'sent', 'retry')
      ) as calls
      where id = any(${runIds}) and organization_id = ${organizationId}
    ), e as (
      select run_id, step_id, item_index, tool, state, attempt, failures, resolved_outcome, params_hash, labels,
             label_sources, decision_id, approval_id, output_labels, error, past_outcomes, intent_at, sent_at, sent_with,
             finished_at, duration_ms, wants_slot, bodies, body_counted, until, reused_from, repeats, revision
      from effects join k using (run_id, step_id, item_index)
      -- \`effect.sent\` commits outside the chain lock: the row lock orders it against a new attempt.
      for update of effects
    ), s as (
      select run_id, step_id, kind, item_count, author_roles, status, verdict, attempts, labels, error, started_at, finished_at
      from run_steps where (run_id, step_id) in (select run_id, step_id from k)
    ), a as (
      select ${approvalColumns}
      from approvals where id in (select approval_id from e)
    ), m as (
      select user_id, role, (select email_verified from users where id = memberships.user_id) as confirmed
      from memberships where organization_id = ${organizationId}
        and user_id in (select requested_by from r union select ${holderOfVote} from approval_votes v join a on a.id = v.approval_id
                        union select typed.value from e cross join jsonb_each_text(e.revision->'typed') as typed)
    )
    select (select json_agg(r) from r) as runs, (select json_agg(e) from e) as effects,
           (select json_agg(s) from s) as steps, (select json_agg(a) from a) as approvals,
           (select json_agg(m) from m) as roles,
           ${groupsByPerson(organizationId, sql`select ${holderOfVote} from approval_votes v join a on a.id = v.approval_id`)} as groups,
           case when exists(select from r where slot is distinct from 'taken') then
             (select json_build_object('taken', count(*) filter (where slot = 'taken'),
                                       'waiting', count(*) filter (where slot <> 'taken'))
              from runs where organization_id = ${organizationId} and slot is not null)
           end as slots`
}

/**
 * Adds `most` to the cost of a run. `most` is the highest possible cost of an attempt. Adds nothing unless both
 * conditions are true:
 *
 * - The attempt may still act (`may_act`).
 * - `most` fits into the rest of the budget `limit`. This is the budget of the month in which the run was accepted.
 *
 * `reserved` tells whether the cost was added.
 */
export const reserveCostOfAttempt = (given: {
  readonly organizationId: string
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number
  readonly attempt: number
  readonly most: number
  readonly limit: number
}): RawBuilder<{ readonly may_act: boolean; readonly reserved: boolean }> => sql`
  with call as (
    select r.id, date_trunc('month', r.created_at, 'UTC') as month
    from effects e join runs r on r.id = e.run_id
    where e.run_id = ${given.runId} and e.step_id = ${given.stepId} and e.item_index = ${given.itemIndex}
      and e.attempt = ${given.attempt} and e.state = 'intent' and r.organization_id = ${given.organizationId}
      and r.cancel_requested_at is null and r.finished_at is null
  ), counted as (
    update runs set cost = cost + ${given.most}::numeric
    where id = (select id from call) and ${given.most}::numeric + (
      select coalesce(sum(cost), 0) from runs, call
      where organization_id = ${given.organizationId} and cost > 0
        and created_at >= call.month and created_at < call.month + interval '1 month'
    ) <= ${given.limit}::numeric
    returning 1
  )
  select exists(select from call) as may_act, exists(select from counted) as reserved`

export interface OpenRun {
  readonly id: string
  readonly organization_id: string
  readonly cancel_requested_at: Date | null
  readonly cancel_requested_by: string | null
  /** Keys of calls that still wait although they are decided: the signal was probably lost. Empty for the run itself. */
  readonly overdue: readonly string[]
}

/** Marks them as checked, so no two workers take the same run. */
export const takeOpenRuns = (given: {
  readonly most: number
  readonly minAgeSeconds: number
  readonly mostWoken: number
}): RawBuilder<OpenRun> => sql`
  with taken as (
    update runs set checked_at = clock_timestamp()
    where id in (
      select id from runs
      -- a \`queued\` run has no workflow yet
      where finished_at is null and slot is distinct from 'queued'
        and greatest(created_at, checked_at) < clock_timestamp() - make_interval(secs => ${given.minAgeSeconds})
      order by checked_at nulls first limit ${given.most} for update skip locked)
    returning id, organization_id, cancel_requested_at, cancel_requested_by, slot
  )
  select taken.id, taken.organization_id, taken.cancel_requested_at, taken.cancel_requested_by, array(
      select e.step_id || '#' || e.item_index from effects e
      where e.run_id = taken.id and e.state = 'unknown_outcome' and e.resolved_outcome is not null
      union all
      select coalesce(e.step_id || '#' || e.item_index, '')
      from approvals a left join effects e on e.run_id = a.run_id and e.approval_id = a.id
      where a.run_id = taken.id and a.status <> 'pending' and a.used_at is null and a.superseded_by is null
        and (e.state = 'held' or a.kind = 'run')
        -- an approved run that waits for a slot is woken with the slot
        and (taken.slot is distinct from 'waits' or a.status <> 'approved')
        and a.decided_at < clock_timestamp() - make_interval(secs => ${given.minAgeSeconds})
      limit ${given.mostWoken}
    ) as overdue
  from taken`

/** Columns of numbered (`n`) JSON rows without sealed values. `sets_detail` also sets `error_detail_sealed`. */
const effectColumns = sql`n int, run_id text, step_id text, item_index int, tool text, state text, attempt int,
  failures int, resolved_outcome text, params_hash text, labels text[], label_sources jsonb, decision_id text,
  approval_id text, output_labels text[], error jsonb, past_outcomes jsonb, intent_at timestamptz, sent_at timestamptz,
  sent_with text, finished_at timestamptz, duration_ms int, wants_slot boolean, bodies int, body_counted boolean, until timestamptz,
  reused_from text, repeats text, sets_detail boolean`

/** CTE. `rows` is the result of `numbered`, with one binary value for each in the other lists. */
export const insertNewEffects = (given: {
  readonly organizationId: string
  readonly rows: string
  readonly outputs: readonly (Buffer | null)[]
  readonly sealed: readonly (Buffer | null)[]
  readonly details: readonly (Buffer | null)[]
}): RawBuilder<unknown> => sql`new_effects as (
    insert into effects (organization_id, run_id, step_id, item_index, tool, state, attempt, failures,
      resolved_outcome, params_hash, labels, label_sources, decision_id, approval_id, output_labels, error, past_outcomes, intent_at,
      sent_at, sent_with, finished_at, duration_ms, wants_slot, bodies, body_counted, until, reused_from, repeats, output_sealed, params_sealed, error_detail_sealed)
    select ${given.organizationId}, r.run_id, r.step_id, r.item_index, r.tool, r.state, r.attempt, r.failures,
      r.resolved_outcome, r.params_hash, r.labels, r.label_sources, r.decision_id, r.approval_id, r.output_labels,
      r.error, r.past_outcomes, r.intent_at, r.sent_at, r.sent_with, r.finished_at, r.duration_ms, r.wants_slot, r.bodies, r.body_counted, r.until, r.reused_from, r.repeats, o.output, o.sealed, o.detail
    from json_to_recordset(${given.rows}::json) as r(${effectColumns})
    join unnest(${given.outputs}::bytea[], ${given.sealed}::bytea[], ${given.details}::bytea[])
      with ordinality as o(output, sealed, detail, n) on o.n = r.n
  )`

/** CTE, as `insertNewEffects`. A null in `outputs` leaves the stored one. */
export const updateMovedEffects = (given: {
  readonly rows: string
  readonly outputs: readonly (Buffer | null)[]
  readonly details: readonly (Buffer | null)[]
}): RawBuilder<unknown> => sql`moved_effects as (
    update effects e set state = r.state, attempt = r.attempt, failures = r.failures,
      resolved_outcome = r.resolved_outcome, labels = r.labels, label_sources = r.label_sources,
      decision_id = r.decision_id, approval_id = r.approval_id, output_labels = r.output_labels, error = r.error,
      past_outcomes = r.past_outcomes, intent_at = r.intent_at, sent_at = r.sent_at, sent_with = r.sent_with, finished_at = r.finished_at, duration_ms = r.duration_ms,
      wants_slot = r.wants_slot, bodies = r.bodies, body_counted = r.body_counted, until = r.until, output_sealed = coalesce(o.output, e.output_sealed),
      error_detail_sealed = case when r.sets_detail then o.detail else e.error_detail_sealed end
    from json_to_recordset(${given.rows}::json) as r(${effectColumns})
    join unnest(${given.outputs}::bytea[], ${given.details}::bytea[])
      with ordinality as o(output, detail, n) on o.n = r.n
    where e.run_id = r.run_id and e.step_id = r.step_id and e.item_index = r.item_index
  )`

/** A person has typed other parameters. */
export const reviseEffect = (given: {
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number
  readonly sealed: Buffer
  readonly paramsHash: string
  readonly revision: object
  readonly repeats: string | null
}): RawBuilder<unknown> => sql`
  update effects set params_sealed = ${given.sealed}, params_hash = ${given.paramsHash},
    revision = ${JSON.stringify(given.revision)}::jsonb, repeats = ${given.repeats}
  where run_id = ${given.runId} and step_id = ${given.stepId} and item_index = ${given.itemIndex}`

/** CTE. */
export const updateRuns = (rows: readonly object[]): RawBuilder<unknown> => sql`moved_runs as (
    update runs set status = r.status, status_reason = r.status_reason, decision_seq = r.decision_seq,
      stored_bytes = r.stored_bytes, nodes_executed = r.nodes_executed, nodes_failed = r.nodes_failed, started_at = r.started_at,
      slot = r.slot, cost = r.cost
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(id text, status text,
      status_reason text, decision_seq int, stored_bytes bigint, nodes_executed int, nodes_failed int, started_at timestamptz,
      slot text, cost numeric)
    where runs.id = r.id
  )`

/** CTE. */
export const updateSteps = (rows: readonly object[]): RawBuilder<unknown> => sql`moved_steps as (
    update run_steps set status = r.status, verdict = r.verdict, attempts = r.attempts, labels = r.labels,
      error = r.error, started_at = r.started_at, finished_at = r.finished_at
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(run_id text, step_id text,
      status text, verdict text, attempts int, labels text[], error jsonb, started_at timestamptz,
      finished_at timestamptz)
    where run_steps.run_id = r.run_id and run_steps.step_id = r.step_id
  )`

export interface ResolutionRow {
  readonly step_id: string
  readonly item_index: number
  readonly attempt: number
  readonly outcome: 'retry' | 'done' | 'fail'
  readonly resolved_by: string
  readonly email: string
  readonly at: Date
}

/** What people said about calls with an unknown outcome, the newest first: so many of each step. */
export const newestResolutions = (
  runId: string,
  stepIds: readonly string[],
  most: number,
): RawBuilder<ResolutionRow> => sql`
  select step_id, item_index, attempt, outcome, resolved_by, email, at from (
    select *, row_number() over (partition by step_id order by at desc, item_index) as place
    from resolutions where run_id = ${runId} and step_id = any(${[...stepIds]}::text[])) as r
  where place <= ${most} order by step_id, place`

/**
 * Runs whose inputs have the file, newest first. `searched` runs are looked at, and one row without an id says so if none
 * has it.
 */
export const runsThatTook = (
  organizationId: string,
  file: {
    readonly id: string
    /** The name of the input that lists files. */
    readonly input: string
    readonly from: Date
    readonly until: Date
    readonly searched: number
    readonly most: number
  },
): RawBuilder<{
  readonly id: string | null
  readonly workflow_name: string | null
  readonly status: RunStatus
  readonly created_at: Date
  readonly searched: number
}> => sql`
  with looked as materialized (
    select id, workflow_id, status, created_at,
      poll_of is null and position(${file.id} in (input_labels -> ${file.input}::text)::text) > 0 as takes_it
    from runs
    where organization_id = ${organizationId}
      and created_at >= ${file.from}::timestamptz - interval '1 second'
      and created_at <= ${file.until}::timestamptz + interval '1 second'
    order by created_at desc limit ${file.searched})
  select t.id, t.workflow_name, t.status, t.created_at, c.searched
  from (select count(*)::int as searched from looked) c
  left join (
    select l.id, w.name as workflow_name, l.status, l.created_at
    from looked l left join workflows w on w.id = l.workflow_id
    where l.takes_it order by l.created_at desc limit ${file.most}) t on true
  order by t.created_at desc`
