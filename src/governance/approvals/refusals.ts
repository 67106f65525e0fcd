import type { Db } from '../../db/schema/index.ts'
import { DomainError } from '../errors.ts'
import type { ApprovalKind, ApprovalStatus } from '../../contract/status.ts'
import {
  decisionRefusal,
  mayDecide,
  type FirstPeople,
  type Requirement,
  type VoteWithRole,
} from './requirement.ts'

export interface Votable {
  readonly kind: ApprovalKind
  readonly status: ApprovalStatus
  /** Still pending although its time is over, by the database's clock. */
  readonly isDue: boolean
}

/** For a decided or expired approval; null if it can still be decided. */
export function endedRefusal({ kind, status, isDue }: Votable): DomainError | null {
  if (status === 'expired' || isDue)
    return new DomainError(
      'approval_expired',
      `the approval has expired: ${kind === 'agent_call' ? 'the agent must ask again' : 'run the workflow again'}`,
    )
  if (status === 'pending') return null
  return new DomainError('approval_already_decided', `the approval is already \`${status}\``)
}

/** Null if the vote would count. */
export async function voterRefusal(
  db: Db,
  organizationId: string,
  voter: Pick<VoteWithRole, 'user_id' | 'role'>,
  approval: FirstPeople & { readonly votes: readonly VoteWithRole[] },
  required: Requirement,
): Promise<DomainError | null> {
  const refusal = decisionRefusal(voter, approval, required)
  if (refusal === null) return null
  if (refusal === 'voted') return new DomainError('conflict', 'you have already voted on this approval')
  if (refusal === 'not_an_approver')
    return new DomainError(refusal, `you need the role \`${required.approver}\` to decide this approval`)
  const others = await othersWhoDecide(db, organizationId, approval, required.approver)
  return new DomainError('self_approval', `${ownWork[refusal]}${others}`)
}

const ownWork = {
  own_request: 'you cannot decide your own request',
  own_text: 'you wrote the version of the workflow that runs, and its authors cannot decide',
} as const

/** A refusal names at most this many people. */
const mostNamed = 3

/** Names people who can decide, or says what to change. */
async function othersWhoDecide(
  db: Db,
  organizationId: string,
  { requested_by, authors }: FirstPeople,
  approver: 'admin' | 'owner',
): Promise<string> {
  const members = await db
    .selectFrom('memberships as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .select(['u.email', 'm.role'])
    .where('m.organization_id', '=', organizationId)
    .where('m.user_id', 'not in', [requested_by, ...authors])
    .where('m.role', 'in', ['admin', 'owner'])
    .orderBy('u.email')
    .execute()
  const able = members.filter(({ role }) => mayDecide(role, approver)).map(({ email }) => `\`${email}\``)
  if (able.length === 0)
    return `, and nobody else has the role \`${approver}\`: add a person with this role, or set \`allow_self_approval\``
  const more = able.length > mostNamed ? ` or ${able.length - mostNamed} more` : ''
  return `: ask ${able.slice(0, mostNamed).join(' or ')}${more}`
}
