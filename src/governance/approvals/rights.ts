import { sql, type RawBuilder } from 'kysely'
import { groupsOfPerson, rightsOfAbsent } from '../../db/queries/approvals.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Role } from '../../policy/types.ts'
import type { Rights, Voter } from './requirement.ts'

/** By what a person can vote: their own rights first, then those of the people who are away. */
export type AllRights = readonly [Voter, ...Voter[]]

export const allRights = (
  userId: string,
  own: Omit<Rights, 'for_user'>,
  forAbsent: readonly Rights[],
  at: Date,
): AllRights => [
  { user_id: userId, for_user: null, role: own.role, groups: own.groups, at },
  ...forAbsent.map((rights) => ({ user_id: userId, ...rights, at })),
]

/** At this time, in SQL; by default, now. */
export async function rightsOf(
  db: Db,
  organizationId: string,
  { userId, role }: { readonly userId: string; readonly role: Role },
  at: RawBuilder<Date> = sql<Date>`clock_timestamp()`,
): Promise<AllRights> {
  const [organization, person] = [sql`${organizationId}`, sql`${userId}`]
  const { rows } = await sql<{ at: Date; groups: string[]; for_absent: Rights[] }>`
    select t.at, ${groupsOfPerson(organization, person)} as groups,
      ${rightsOfAbsent(organization, person, sql`t.at`)} as for_absent
    from (select ${at}::timestamptz as at) as t`.execute(db)
  const [row] = rows as [(typeof rows)[number]]
  return allRights(userId, { role, groups: row.groups }, row.for_absent, row.at)
}
