import { sql, type RawBuilder } from 'kysely'

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
    insert into outbox (kind, run_id, payload)
    select case when had = 'queued' then 'run.start' else 'run.wake' end, id,
           case when had = 'queued' then '{}'::jsonb else jsonb_build_object('key', ${given.wakeKey}::text) end
    from granted
  )
  select * from granted`
