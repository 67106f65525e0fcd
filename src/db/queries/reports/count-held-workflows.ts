import { sql, type RawBuilder } from 'kysely'

export interface HeldWorkflow {
  readonly workflow_id: string
  readonly name: string
  readonly total: number
  readonly approved: number
  readonly rejected: number
  /** The number of all held workflows, including those that `mostWorkflows` leaves out. */
  readonly workflows: number
}

/** Selects the workflows with the most approvals. Only approvals that match the condition `mine` are counted. */
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
