import { sql, type RawBuilder } from 'kysely'

/** `extract` would compute with slow decimal numbers. */
const seconds = sql`date_part('epoch', decided_at - created_at)`

const isDecided = sql`status in ('approved', 'rejected')`

export interface ApprovalTotals {
  held: number
  approved: number
  rejected: number
  pending: number
  expired: number
  cancelled: number
  mean: number | null
  quantiles: number[] | null
  quick: number
}

const countOf = (status: string) => sql`count(*) filter (where status = ${status})`

/** By status, with the seconds to the decision. The result `quick` counts approvals within `quick` seconds. */
export const countApprovalsByStatus = (
  mine: RawBuilder<boolean>,
  quick: number,
): RawBuilder<ApprovalTotals> => sql`
  select count(*) as held, ${countOf('approved')} as approved, ${countOf('rejected')} as rejected, ${countOf('pending')} as pending,
    ${countOf('expired')} as expired, count(*) filter (where status in ('cancelled', 'revised')) as cancelled,
    avg(${seconds}) filter (where ${isDecided}) as mean,
    percentile_cont(array[0.5, 0.95]) within group (order by ${seconds}) filter (where ${isDecided}) as quantiles,
    count(*) filter (where status = 'approved' and decided_at - created_at <= ${quick} * interval '1 s') as quick
  from approvals where ${mine} and kind not in ('change', 'ask', 'revision')`

export interface HeldDay {
  /** `YYYY-MM-DD`, in UTC. */
  readonly day: string
  readonly held: number
  readonly approved: number
  readonly rejected: number
  readonly expired: number
  readonly median_decision_seconds: number | null
}

/** The newest days on which something was held, the newest first. One day after another, because sorting all by day takes longer. */
export const countApprovalsByDay = (mine: RawBuilder<boolean>, mostDays: number): RawBuilder<HeldDay> => {
  const held = sql`from approvals where ${mine} and kind not in ('change', 'ask', 'revision')`
  const newest = (before: RawBuilder<unknown>) => sql`(
    select date_trunc('day', created_at, 'UTC') ${held} ${before} order by created_at desc limit 1)`
  return sql`
  with recursive days (day) as (
    select ${newest(sql``)}
    union all
    select ${newest(sql`and created_at < day`)} from days where day is not null
  )
  select to_char(day at time zone 'UTC', 'YYYY-MM-DD') as day, counts.*
  from (select day from days where day is not null limit ${mostDays}) as days, lateral (
    select count(*) as held, ${countOf('approved')} as approved, ${countOf('rejected')} as rejected, ${countOf('expired')} as expired,
      percentile_cont(0.5) within group (order by ${seconds}) filter (where ${isDecided}) as median_decision_seconds
    ${held} and created_at >= day and created_at < day + interval '24 hours'
  ) as counts
  order by days.day desc`
}

export interface AgentCounts {
  readonly agent_name: string
  readonly sessions: number
  readonly allowed: number
  readonly held: number
  readonly denied: number
  /** Calls that were made without a decision that allowed them. */
  readonly unapproved: number
}

/** The agents that asked most. `mine` is about the sessions. */
export const countOfAgents = (mine: RawBuilder<boolean>, most: number): RawBuilder<AgentCounts> => sql`
  select agent_name, count(*) as sessions, sum(allowed) as allowed, sum(held) as held, sum(denied) as denied,
    sum(unapproved) as unapproved
  from agent_sessions where ${mine}
  group by agent_name order by sum(allowed) + sum(held) + sum(denied) desc, agent_name limit ${most}`

/**
 * Two lists of `mostRules`, which may overlap: those that required the most approvals (`is_top`), and those with
 * approved and without rejected ones (`always_approved`).
 */
export const rulesThatHold = <Rule>(
  mine: RawBuilder<boolean>,
  mostRules: number,
): RawBuilder<Rule & { readonly is_top: boolean }> => sql`
  with rules as (
    select rule_id, count(*) as held, count(*) filter (where status = 'approved') as approved,
      count(*) filter (where status = 'rejected') as rejected, max(id) as newest
    from approvals where ${mine} and rule_id is not null
    group by rule_id
  ), ranked as (
    select *, approved > 0 and rejected = 0 as always_approved,
      row_number() over (order by held desc, rule_id) as place,
      row_number() over (partition by approved > 0 and rejected = 0 order by held desc, rule_id) as place_beside
    from rules
  ), shown as materialized (
    select * from ranked where place <= ${mostRules} or (always_approved and place_beside <= ${mostRules})
  ), medians as (
    select rule_id, percentile_cont(0.5) within group (order by ${seconds}) as median_decision_seconds
    from approvals where ${mine} and ${isDecided} and rule_id = any(array(select rule_id from shown)) group by rule_id
  )
  select rule_id, (select a.rule_name from approvals a where a.id = newest) as rule_name, held, approved, rejected,
    always_approved, median_decision_seconds, place <= ${mostRules} as is_top
  from shown left join medians using (rule_id) order by place`

export interface HeldVersion {
  readonly workflow_id: string
  readonly version: number
  readonly tools: string[]
  total: number
  approved: number
}

/** With approvals of whole runs. `tools` are those of the newest such run. */
export const heldVersions = (mine: RawBuilder<boolean>): RawBuilder<HeldVersion> => sql`
  with versions as (
    select r.workflow_id, r.workflow_version as version, count(*) as total,
      count(*) filter (where a.status = 'approved') as approved, max(r.id) as newest
    from (select run_id, status from approvals where ${mine} and kind = 'run') as a join runs r on r.id = a.run_id
    group by r.workflow_id, r.workflow_version
  )
  select v.workflow_id, v.version, v.total, v.approved,
    array(select distinct tool from run_steps where run_id = v.newest) as tools
  from versions v order by v.workflow_id, v.version`

export interface HeldWorkflow {
  readonly workflow_id: string
  readonly name: string
  readonly total: number
  readonly approved: number
  readonly rejected: number
  /** All of them, also those that `mostWorkflows` leaves out. */
  readonly workflows: number
}

/** Those with the most approvals that match `mine`. */
export const heldWorkflows = (
  mine: RawBuilder<boolean>,
  mostWorkflows: number,
): RawBuilder<HeldWorkflow> => sql`
  select held.*, (select name from workflows where id = held.workflow_id) as name
  from (
    select workflow_id, count(*) as total, count(*) filter (where status = 'approved') as approved,
      count(*) filter (where status = 'rejected') as rejected, count(*) over () as workflows
    from approvals where ${mine} and workflow_id is not null and kind not in ('ask', 'revision')
    group by workflow_id order by total desc, workflow_id limit ${mostWorkflows}
  ) as held
  order by total desc, workflow_id`

/** Those who approved most. Name and address are null if the account was deleted. */
export const approversOf = <Approver>(mine: RawBuilder<boolean>, most: number): RawBuilder<Approver> => sql`
  select top.user_id, u.name, u.email, top.approvals from (
    select v.user_id, count(*) as approvals
    from (select id from approvals where ${mine} and kind not in ('change', 'ask', 'revision')) as a join approval_votes v on v.approval_id = a.id
    where v.decision = 'approve'
    group by v.user_id order by approvals desc, v.user_id limit ${most}
  ) as top left join users u on u.id = top.user_id order by top.approvals desc, top.user_id`
