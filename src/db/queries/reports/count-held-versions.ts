import { sql, type RawBuilder } from 'kysely'

export interface HeldVersion {
  readonly workflow_id: string
  readonly version: number
  readonly tools: string[]
  total: number
  approved: number
}

/**
 * Selects the workflow versions that have runs with an approval of the kind `run`. `tools` are the tools of the steps
 * of the newest such run.
 */
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
