import type { Role } from '../../policy/types.ts'
import type { GovernanceSettings } from '../settings.ts'
import type { VoteRecord } from '../records.ts'

/** What an approval must meet: who may vote, and how many must. */
export interface Requirement {
  readonly approver: 'admin' | 'owner'
  /** The larger of the organization's threshold and the rule's own number (contract section 6). */
  readonly needed: number
}

/** Whether a person of this role may decide what needs `approver`. */
export function mayDecide(role: Role | null | undefined, approver: 'admin' | 'owner'): boolean {
  return role === 'owner' || (approver === 'admin' && role === 'admin')
}

/** The stricter of two requirements, member by member. */
export function strictest(a: Requirement, b: Requirement): Requirement {
  return {
    approver: a.approver === 'owner' || b.approver === 'owner' ? 'owner' : 'admin',
    needed: Math.max(a.needed, b.needed),
  }
}

/**
 * Approving votes that count now: of people who still hold the role, and of the requester only where
 * `allow_self_approval` is on at this moment.
 */
export function countingVotes(
  approval: {
    readonly votes: readonly Pick<VoteRecord, 'user_id' | 'decision'>[]
    readonly requested_by: string
  },
  approver: 'admin' | 'owner',
  roles: ReadonlyMap<string, Role>,
  settings: Pick<GovernanceSettings, 'allow_self_approval'>,
): number {
  return approval.votes.filter(
    (vote) =>
      vote.decision === 'approve' &&
      mayDecide(roles.get(vote.user_id), approver) &&
      (settings.allow_self_approval || vote.user_id !== approval.requested_by),
  ).length
}
