import type { Db } from '../../db/schema/index.ts'
import { DomainError } from '../errors.ts'
import type { ApprovalKind, ApprovalStatus } from '../../contract/status.ts'
import { mayDecide, voteRefusal, type Requirement, type VoteWithRole } from './requirement.ts'

/** The fields of an approval on which the refusal of a vote depends. */
export interface Votable {
  readonly kind: ApprovalKind
  readonly status: ApprovalStatus
  readonly requested_by: string
  /** Whether the approval is still pending although its time is over, by the database's clock. */
  readonly isDue: boolean
}

/**
 * Returns the error for a vote on an approval that is decided or expired; null if the approval can still be decided.
 */
export function endedRefusal({ kind, status, isDue }: Omit<Votable, 'requested_by'>): DomainError | null {
  if (status === 'expired' || isDue)
    return new DomainError(
      'approval_expired',
      `the approval has expired: ${kind === 'agent_call' ? 'the agent must ask again' : 'run the workflow again'}`,
    )
  if (status === 'pending') return null
  return new DomainError('approval_already_decided', `the approval is already \`${status}\``)
}

/**
 * Returns the error for a vote of this person; null if the vote would count. `voted` contains the ids of the people who
 * have voted.
 */
export async function voterRefusal(
  db: Db,
  organizationId: string,
  voter: Pick<VoteWithRole, 'user_id' | 'role'>,
  approval: {
    readonly requested_by: string
    readonly voted: readonly string[]
    readonly required: Requirement
  },
): Promise<DomainError | null> {
  const { requested_by, voted, required } = approval
  const refusal = voteRefusal(voter, requested_by, required)
  if (refusal === 'not_an_approver')
    return new DomainError(refusal, `you need the role \`${required.approver}\` to decide this approval`)
  if (refusal === 'self_approval')
    return new DomainError(
      refusal,
      await selfApprovalMessage(db, { organizationId, userId: voter.user_id, approver: required.approver }),
    )
  return voted.includes(voter.user_id)
    ? new DomainError('conflict', 'you have already voted on this approval')
    : null
}

/** A refusal names at most this many people. */
const mostNamed = 3

/** Returns the message for a person who votes on their own request. The message names people who can decide. */
async function selfApprovalMessage(
  db: Db,
  {
    organizationId,
    userId,
    approver,
  }: { readonly organizationId: string; readonly userId: string; readonly approver: 'admin' | 'owner' },
): Promise<string> {
  const members = await db
    .selectFrom('memberships as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .select(['u.email', 'm.role'])
    .where('m.organization_id', '=', organizationId)
    .where('m.user_id', '<>', userId)
    .where('m.role', 'in', ['admin', 'owner'])
    .orderBy('u.email')
    .execute()
  const able = members.filter(({ role }) => mayDecide(role, approver)).map(({ email }) => `\`${email}\``)
  const own = 'you cannot decide your own request'
  if (able.length === 0)
    return `${own}, and nobody else has the role \`${approver}\`: add a person with this role, or set \`allow_self_approval\``
  const more = able.length > mostNamed ? ` or ${able.length - mostNamed} more` : ''
  return `${own}: ask ${able.slice(0, mostNamed).join(' or ')}${more}`
}
