import { sql, type RawBuilder } from 'kysely'

/**
 * Measures all rules and label rules of an organization. `bytes` is their size, and `values` is the total number of
 * their values, labels and tools.
 */
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
