import { sql } from 'kysely'
import { groupsOfPerson } from '../../db/queries/approvals.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Role } from '../../policy/types.ts'
import {
  countingVotes,
  isWanted,
  mayDecide,
  requirementOf,
  type FirstPeople,
  type VoteSettings,
} from '../approvals/requirement.ts'
import type { Subject } from './subjects.ts'

/** A member who may get messages. */
export interface Person {
  readonly userId: string
  readonly email: string
  readonly role: Role
  /** Ids. */
  readonly groups: readonly string[]
  /** null if none is linked. */
  readonly slackAccount: string | null
}

/** For one subject. */
export const mostRecipients = 200

/** SQL: admins, owners and members of groups, of the membership `m`. */
export const mayBeAsked = sql<boolean>`(m.role in ('admin', 'owner') or exists (
  select from group_members g where g.organization_id = m.organization_id and g.user_id = m.user_id))`

/** Admins, owners, members of groups, and the members in `others`. */
export async function readPeople(
  db: Db,
  organizationId: string,
  others: readonly string[],
): Promise<readonly Person[]> {
  const rows = await db
    .selectFrom('memberships as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .select(['m.user_id', 'u.email', 'm.role', 'm.slack_account'])
    .select(groupsOfPerson(sql`m.organization_id`, sql`m.user_id`).as('groups'))
    .where('m.organization_id', '=', organizationId)
    .where(sql<boolean>`not exists (select from service_accounts where id = m.user_id)`)
    .where((eb) => eb.or([mayBeAsked, eb('m.user_id', 'in', ['', ...others])]))
    .orderBy('m.created_at')
    .orderBy('m.user_id')
    .execute()
  return rows.map((row) => ({
    userId: row.user_id,
    email: row.email,
    role: row.role,
    groups: row.groups,
    slackAccount: row.slack_account,
  }))
}

type Asked = Pick<Person, 'userId' | 'role' | 'groups'>
type Voted = Pick<Subject, 'kind' | 'terms' | 'requestedBy' | 'authors' | 'votes'>

/** By a vote on the approval that brings it nearer to its end, or by settling the unknown outcome. */
export function canDecide({ userId, role, groups }: Asked, subject: Voted, settings: VoteSettings): boolean {
  if (subject.kind === 'call') return mayDecide(role, 'admin')
  const approval = { ...firstOf(subject), votes: subject.votes }
  return isWanted({ user_id: userId, role, groups }, approval, requirementOf(subject.terms, settings))
}

/** Owners also hear of an approval that nobody can give. */
export const isTold = (
  person: Asked,
  subject: Voted & Pick<Subject, 'cannotBeGiven'>,
  settings: VoteSettings,
): boolean =>
  (subject.cannotBeGiven !== null && person.role === 'owner') || canDecide(person, subject, settings)

export const hasVoted = ({ userId }: Pick<Person, 'userId'>, { votes }: Pick<Subject, 'votes'>): boolean =>
  votes.some(({ user_id }) => user_id === userId)

/** Approving votes that count now, and how many are needed. */
export function votesOf(
  subject: Voted,
  settings: VoteSettings,
): { readonly given: number; readonly needed: number } {
  const required = requirementOf(subject.terms, settings)
  return { given: countingVotes(subject.votes, firstOf(subject), required), needed: required.needed }
}

const firstOf = ({ requestedBy, authors }: Voted): FirstPeople => ({ requested_by: requestedBy, authors })
