import { sql } from 'kysely'
import { groupsOfPerson, rightsOfAbsent } from '../../db/queries/approvals.ts'
import type { Db } from '../../db/schema/index.ts'
import { isPerson } from '../../policy/seats.ts'
import type { Role } from '../../policy/types.ts'
import {
  countingVotes,
  isWanted,
  mayDecide,
  requirementOf,
  storedSeats,
  type FirstPeople,
  type Rights,
  type VoteSettings,
  type Voter,
} from '../approvals/requirement.ts'
import { allRights } from '../approvals/rights.ts'
import type { Subject } from './subjects.ts'

/** A member who may get messages. */
export interface Person {
  readonly userId: string
  readonly email: string
  readonly role: Role
  /** Ids. */
  readonly groups: readonly string[]
  /** The rights of those whose deputy the person is now. */
  readonly forAbsent: readonly Rights[]
  /** null if none is linked. */
  readonly slackAccount: string | null
}

/** For one subject. */
export const mostRecipients = 200

/** SQL: admins, owners, members of groups and deputies, of the membership `m`. */
export const mayBeAsked = sql<boolean>`(m.role in ('admin', 'owner') or exists (
  select from group_members g where g.organization_id = m.organization_id and g.user_id = m.user_id) or exists (
  select from absences ab where ab.organization_id = m.organization_id and ab.deputy = m.user_id))`

/** SQL: for the membership `m`, as `Person.forAbsent`. */
export const forAbsent = rightsOfAbsent(sql`m.organization_id`, sql`m.user_id`, sql`clock_timestamp()`)

/** Those who may be asked, and the members in `others`. */
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
    .select(forAbsent.as('forAbsent'))
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
    forAbsent: row.forAbsent,
    slackAccount: row.slack_account,
  }))
}

/** Members whom questions that wait name themselves: they may have no other right to be asked. */
export const namedIn = (subjects: readonly Subject[]): readonly string[] =>
  subjects.flatMap(({ state, terms }) =>
    state === 'waits' ? storedSeats(terms).flatMap((seat) => (isPerson(seat) ? [seat.id] : [])) : [],
  )

type Asked = Pick<Person, 'userId' | 'role' | 'groups' | 'forAbsent'>
type Voted = Pick<Subject, 'kind' | 'terms' | 'requestedBy' | 'authors' | 'votes' | 'readAt'>

/** By a vote on the approval that brings it nearer to its end, or by settling the unknown outcome. */
export function canDecide(
  person: Asked,
  subject: Voted,
  settings: VoteSettings,
  at = subject.readAt,
): boolean {
  if (subject.kind === 'call') return mayDecide(person.role, 'admin')
  const approval = { ...firstOf(subject), votes: subject.votes }
  const required = requirementOf(subject.terms, settings)
  return allRights(person.userId, person, person.forAbsent, at).some((voter: Voter) =>
    isWanted(voter, approval, required),
  )
}

/** Those who are asked now, were asked before the reminder, and have not voted. */
export const isReminded = (person: Asked, subject: Subject, settings: VoteSettings): boolean =>
  subject.remindAt !== null &&
  subject.remindAt <= subject.readAt &&
  !hasVoted(person, subject) &&
  [subject.readAt, new Date(subject.remindAt.getTime() - 1)].every((at) =>
    canDecide(person, subject, settings, at),
  )

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
