import { sql, type RawBuilder } from 'kysely'

/** Moves rows of `storage_moves` to the counters. Needs the lock of the organization's `chain_head`. */
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

/** The counters and the rows of `storage_moves`, minus a new count of all rows. */
export const readStorageDrift = (
  organizationId: string,
): RawBuilder<{ readonly bytes: number; readonly pending: number }> => sql`
  select h.stored_bytes + m.bytes - r.bytes as bytes, h.pending_approvals + m.pending - r.pending as pending
  from chain_head h cross join lateral recount_storage(h.organization_id) as r cross join lateral (
    select coalesce(sum(bytes), 0)::bigint as bytes, coalesce(sum(pending), 0)::bigint as pending
    from storage_moves where organization_id = h.organization_id
  ) as m
  where h.organization_id = ${organizationId}`

/** With the rows of `storage_moves` that are not in the counters yet. */
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
