import { sql, type RawBuilder } from 'kysely'

/**
 * A request that creates an organization can be interrupted, and leave an organization without members. Finds such an
 * organization of this person, renames it and returns its id. So the person's next request uses this organization.
 */
export const takeUnusedOrganization = ({
  userId,
  name,
  unusedAfter,
}: {
  readonly userId: string
  readonly name: string
  readonly unusedAfter: RawBuilder<unknown>
}): RawBuilder<{ readonly id: string }> => sql`
  update organizations set name = ${name}, created_at = clock_timestamp()
  where id = (select o.id from organizations o join chain_head h on h.organization_id = o.id
              where o.created_by = ${userId} and h.seq = 0
                and o.created_at < clock_timestamp() - ${unusedAfter}
                and not exists (select from memberships m where m.organization_id = o.id)
              limit 1)
  returning id`
