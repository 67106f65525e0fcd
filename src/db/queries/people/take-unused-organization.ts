import { sql, type RawBuilder } from 'kysely'

/** An interrupted request may have left an organization without members. Renames it for the person's next request. */
export const takeUnusedOrganization = (given: {
  readonly userId: string
  readonly name: string
  readonly unusedAfter: RawBuilder<unknown>
}): RawBuilder<{ readonly id: string }> => sql`
  update organizations set name = ${given.name}, created_at = clock_timestamp()
  where id = (select o.id from organizations o join chain_head h on h.organization_id = o.id
              where o.created_by = ${given.userId} and h.seq = 0
                and o.created_at < clock_timestamp() - ${given.unusedAfter}
                and not exists (select from memberships m where m.organization_id = o.id)
              limit 1)
  returning id`
