import { sql, type RawBuilder } from 'kysely'

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
    from approvals where ${mine} and workflow_id is not null
    group by workflow_id order by total desc, workflow_id limit ${mostWorkflows}
  ) as held
  order by total desc, workflow_id`
