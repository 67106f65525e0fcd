import { sql, type RawBuilder } from 'kysely'

/**
 * Reads the counters of an organization’s stored data. Includes the rows of `storage_moves` that are not in the
 * counters yet.
 */
export const readStoredAmounts = (
  organizationId: string,
): RawBuilder<{
  readonly bytes: number
  readonly pending: number
  readonly rules: number
  readonly memory: number
}> => sql`
  select h.stored_bytes + moved.bytes as bytes, h.pending_approvals + moved.pending as pending,
         (select count(*) from rules where organization_id = h.organization_id)
         + (select count(*) from label_rules where organization_id = h.organization_id) as rules,
         coalesce((select bytes from memory_usage where organization_id = h.organization_id), 0) as memory
  from chain_head h cross join lateral (
    select coalesce(sum(bytes), 0)::bigint as bytes, coalesce(sum(pending), 0)::bigint as pending
    from storage_moves where organization_id = h.organization_id
  ) as moved
  where h.organization_id = ${organizationId}`
