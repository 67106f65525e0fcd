import { sql, type RawBuilder } from 'kysely'

/**
 * Reads by how much an organization’s counters are wrong: the counters and the rows of `storage_moves`, minus a new
 * count of all rows of the organization.
 */
export const readStorageDrift = (
  organizationId: string,
): RawBuilder<{ readonly bytes: number; readonly pending: number }> => sql`
  select h.stored_bytes + m.bytes - r.bytes as bytes, h.pending_approvals + m.pending - r.pending as pending
  from chain_head h cross join lateral recount_storage(h.organization_id) as r cross join lateral (
    select coalesce(sum(bytes), 0)::bigint as bytes, coalesce(sum(pending), 0)::bigint as pending
    from storage_moves where organization_id = h.organization_id
  ) as m
  where h.organization_id = ${organizationId}`
