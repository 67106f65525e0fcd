import { sql, type RawBuilder } from 'kysely'

/** What can change about a call. */
export const readCallState = <Now>(given: {
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number
  readonly dependsOn: readonly string[]
}): RawBuilder<Now> => sql`
  select e.state, octet_length(e.params_sealed) as sealed_bytes,
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
