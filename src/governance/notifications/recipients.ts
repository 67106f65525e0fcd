import type { Db } from '../../db/schema/index.ts'
import type { Role } from '../../policy/types.ts'
import {
  countingVotes,
  decisionRefusal,
  mayDecide,
  requirementOf,
  type FirstPeople,
  type Requirement,
  type VoteSettings,
} from '../approvals/requirement.ts'
import type { Subject } from './subjects.ts'

/** A member who may get messages. */
export interface Person {
  readonly userId: string
  readonly email: string
  readonly role: Role
  /** null if none is linked. */
  readonly slackAccount: string | null
}

/** For one subject. */
export const mostRecipients = 200

/** Admins and owners, and the members in `others`. */
export async function readPeople(
  db: Db,
  organizationId: string,
  others: readonly string[],
): Promise<readonly Person[]> {
  const rows = await db
    .selectFrom('memberships as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .select(['m.user_id', 'u.email', 'm.role', 'm.slack_account'])
    .where('m.organization_id', '=', organizationId)
    .where((eb) => eb.or([eb('m.role', 'in', ['admin', 'owner']), eb('m.user_id', 'in', ['', ...others])]))
    .orderBy('m.created_at')
    .orderBy('m.user_id')
    .execute()
  return rows.map((row) => ({
    userId: row.user_id,
    email: row.email,
    role: row.role,
    slackAccount: row.slack_account,
  }))
}

type Voted = Pick<Subject, 'kind' | 'approver' | 'approvalsNeeded' | 'requestedBy' | 'authors' | 'votes'>

/** By a vote on the approval, or by settling the unknown outcome. */
export function canDecide(
  person: Pick<Person, 'userId' | 'role'>,
  subject: Voted,
  settings: VoteSettings,
): boolean {
  if (subject.kind === 'call') return mayDecide(person.role, 'admin')
  const own = { user_id: person.userId, role: person.role }
  return (
    decisionRefusal(own, { ...firstOf(subject), votes: subject.votes }, requiredFor(subject, settings)) ===
    null
  )
}

export const hasVoted = ({ userId }: Pick<Person, 'userId'>, { votes }: Pick<Subject, 'votes'>): boolean =>
  votes.some(({ user_id }) => user_id === userId)

/** Approving votes that count now, and how many are needed. */
export function votesOf(
  subject: Voted,
  settings: VoteSettings,
): { readonly given: number; readonly needed: number } {
  const required = requiredFor(subject, settings)
  return { given: countingVotes(subject.votes, firstOf(subject), required), needed: required.needed }
}

const firstOf = ({ requestedBy, authors }: Voted): FirstPeople => ({ requested_by: requestedBy, authors })

const requiredFor = ({ approver, approvalsNeeded }: Voted, settings: VoteSettings): Requirement =>
  requirementOf({ approver, approvals_needed: approvalsNeeded }, settings)
