import { sql, type RawBuilder } from 'kysely'

/**
 * Adds at most `mostMoves` rows of `storage_moves` to an organization's counters, and deletes these rows. The caller
 * must have locked the organization's row of `chain_head`.
 */
export const addStorageMoves = (organizationId: string, mostMoves: number): RawBuilder<unknown> => sql`
  with gone as (
    delete from storage_moves
    where id in (select id from storage_moves where organization_id = ${organizationId} limit ${mostMoves})
    returning bytes, pending
  )
  update chain_head set stored_bytes = stored_bytes + gone.bytes,
    pending_approvals = pending_approvals + gone.pending
  from (select coalesce(sum(bytes), 0)::bigint as bytes, coalesce(sum(pending), 0)::bigint as pending
        from gone) as gone
  where organization_id = ${organizationId}`
