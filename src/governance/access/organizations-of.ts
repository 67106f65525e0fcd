import type { Role } from '../../policy/types.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Sender } from './identity.ts'
import { rolesFrom } from './scopes.ts'
import { missingFactor } from './second-factor.ts'

/** A request that names no organization is about at most this many organizations of the caller. */
const mostOrganizations = 1_000

/**
 * Returns the ids of the organizations in which the person has at least the role `minimum`, sorted. Leaves out an
 * organization that requires a second factor if the sender lacks it. The caller checks the sender's scopes.
 */
export async function organizationsOf(db: Db, sender: Sender, minimum: Role): Promise<string[]> {
  const rows = await db
    .selectFrom('memberships as m')
    .innerJoin('organizations as o', 'o.id', 'm.organization_id')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .select('m.organization_id')
    .where('m.user_id', '=', sender.userId)
    .where('m.role', 'in', rolesFrom(minimum))
    .where(missingFactor(sender), 'is', null)
    .orderBy('m.organization_id')
    .limit(mostOrganizations)
    .execute()
  return rows.map((row) => row.organization_id)
}
