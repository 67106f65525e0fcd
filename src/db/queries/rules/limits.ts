import { sql, type RawBuilder } from 'kysely'

/** Before a change of the rule `id` (`then`) and after it (`now`), which adds the labels `before` and `after`. */
export const countAddedLabels = (given: {
  readonly organizationId: string
  readonly id: string
  readonly before: readonly string[]
  readonly after: readonly string[]
}): RawBuilder<{ readonly then: number; readonly now: number }> => sql`
  with others as (
    select distinct label from label_rules r cross join jsonb_array_elements_text(r.body->'add_labels') as label
    where r.organization_id = ${given.organizationId} and r.id <> ${given.id} and r.body->>'status' = 'active'
  )
  select (select count(*) from (select label from others union select unnest(${given.before}::text[])) as a) as then,
         (select count(*) from (select label from others union select unnest(${given.after}::text[])) as b) as now`

/** `values` counts values, labels and tools. */
export const measureRules = (
  organizationId: string,
): RawBuilder<{ readonly bytes: number; readonly values: number }> => sql`
  select coalesce(sum(octet_length(body::text)), 0)::float8 as bytes,
         coalesce(sum(jsonb_array_length(jsonb_path_query_array(body, '$.params[*].value[*]'))
                    + jsonb_array_length(jsonb_path_query_array(body, '$.labels.*[*]'))
                    + jsonb_array_length(jsonb_path_query_array(body, '$.tools[*]'))
                    + jsonb_array_length(jsonb_path_query_array(body, '$.add_labels[*]'))), 0)::float8 as values
  from (select body from rules where organization_id = ${organizationId}
        union all
        select body from label_rules where organization_id = ${organizationId}) as saved`
