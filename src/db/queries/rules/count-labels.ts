import { sql, type RawBuilder } from 'kysely'

/**
 * Counts the different labels that an organization's active label rules add. `then` is the count before a change of the
 * rule `id`, and `now` is the count after the change. `before` and `after` are the labels that the changed rule adds
 * before and after the change.
 */
export const countAddedLabels = ({
  organizationId,
  id,
  before,
  after,
}: {
  readonly organizationId: string
  readonly id: string
  readonly before: readonly string[]
  readonly after: readonly string[]
}): RawBuilder<{ readonly then: number; readonly now: number }> => sql`
  with others as (
    select distinct label from label_rules r cross join jsonb_array_elements_text(r.body->'add_labels') as label
    where r.organization_id = ${organizationId} and r.id <> ${id} and r.body->>'status' = 'active'
  )
  select (select count(*) from (select label from others union select unnest(${before}::text[])) as a) as then,
         (select count(*) from (select label from others union select unnest(${after}::text[])) as b) as now`
