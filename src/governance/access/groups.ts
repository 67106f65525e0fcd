import type { Db } from '../../db/schema/index.ts'
import { list, quote } from '../../policy/text.ts'
import type { Role } from '../../policy/types.ts'
import { DomainError } from '../errors.ts'
import { hasRole, isRoleName } from './scopes.ts'

export interface GroupName {
  readonly id: string
  readonly name: string
}

/** The groups of a person in an organization, by name. Nobody has any in an organization that they have left. */
export const groupsOf = (db: Db, organizationId: string, userId: string): Promise<GroupName[]> =>
  db
    .selectFrom('group_members as m')
    .innerJoin('groups as g', 'g.id', 'm.group_id')
    .select(['g.id', 'g.name'])
    .where('m.organization_id', '=', organizationId)
    .where('m.user_id', '=', userId)
    .orderBy('g.name')
    .execute()

/**
 * `runBy`: the roles and groups of which a person needs one to start a workflow; without it, none is needed. Null if
 * the person has one.
 */
export async function whyMayNotRun(
  db: Db,
  {
    organizationId,
    userId,
    role,
  }: { readonly organizationId: string; readonly userId: string; readonly role: Role },
  runBy: readonly string[] | undefined,
): Promise<string | null> {
  if (runBy === undefined || runBy.some((name) => isRoleName(name) && hasRole(role, name))) return null
  const own = await groupsOf(db, organizationId, userId)
  if (own.some(({ name }) => runBy.includes(name))) return null
  const who = runBy.map((name) =>
    isRoleName(name) ? `people with the role ${quote(name)}` : `members of ${quote(name)}`,
  )
  return `only ${list(who, 'or', who.length)} may start this workflow: ask one of them, or an owner to add you`
}

export const refusedToRun = (why: string): DomainError => new DomainError('insufficient_role', why)
