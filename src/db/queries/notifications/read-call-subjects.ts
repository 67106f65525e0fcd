import { sql, type RawBuilder } from 'kysely'
import type { SideEffect } from '../../../policy/types.ts'

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

/**
 * Reads what messages show about an organization's calls. `rounds` has one value for each call: the attempt that the
 * message is about, or null for the newest attempt.
 */
export const selectCallSubjects = ({
  organizationId,
  runIds,
  stepIds,
  itemIndexes,
  rounds,
}: {
  readonly organizationId: string
  readonly runIds: readonly string[]
  readonly stepIds: readonly string[]
  readonly itemIndexes: readonly number[]
  readonly rounds: readonly (number | null)[]
}): RawBuilder<CallRow & { readonly round: number }> => sql`
  select e.run_id, e.step_id, e.item_index, t.item_count, e.tool, d.side_effect, d.destination, e.state, e.attempt,
    coalesce(k.round, e.attempt) as round, e.resolved_outcome is not null as resolved,
    r.finished_at is not null as run_ended, w.name as workflow_name, e.labels, r.requested_by, r.requester_email,
    e.sent_at, r.created_at
  from unnest(${runIds}::text[], ${stepIds}::text[],
              ${itemIndexes}::int[], ${rounds}::int[])
         as k(run_id, step_id, item_index, round)
    join effects e on e.run_id = k.run_id and e.step_id = k.step_id and e.item_index = k.item_index
    join runs r on r.id = e.run_id
    join workflows w on w.id = r.workflow_id
    left join decisions d on d.id = e.decision_id
    left join run_steps t on t.run_id = e.run_id and t.step_id = e.step_id
  where r.organization_id = ${organizationId}`
