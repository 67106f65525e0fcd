import { sql, type RawBuilder } from 'kysely'

/** Directly or through other workflows. */
export const isReplacedBy = (workflowId: string, replacementId: string): RawBuilder<unknown> => sql`
  with recursive chain(id) as (
    select ${replacementId}::text
    union
    select e.replacement_id from registry_entries e join chain on e.workflow_id = chain.id
  )
  select 1 from chain where id = ${workflowId}`
