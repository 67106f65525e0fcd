import type { Role } from '../../policy/types.ts'
import type { GovernanceSettings } from '../../policy/settings.ts'

/** The role that may vote, the number of votes needed, and whether the requester's own vote counts. */
export interface Requirement {
  readonly approver: 'admin' | 'owner'
  /** The larger of two numbers: the organization's threshold, and the number of votes that the rule requires. */
  readonly needed: number
  readonly allowSelfApproval: boolean
}

/** The settings on which votes depend. */
export type VoteSettings = Pick<GovernanceSettings, 'allow_self_approval' | 'approval_threshold'>

/** A vote. `role` is the role that the voter has now; null if the voter has left the organization. */
export interface VoteWithRole {
  readonly user_id: string
  readonly decision: 'approve' | 'reject'
  readonly role: Role | null
}

/**
 * Returns the requirement that an approval must satisfy now. The number of votes is the approval's stored number or the
 * organization's current threshold, whichever is larger. The current setting decides whether the requester's own vote
 * counts.
 */
export const requirementOf = (
  approval: { readonly approver: 'admin' | 'owner'; readonly approvals_needed: number },
  settings: VoteSettings,
): Requirement => ({
  approver: approval.approver,
  needed: Math.max(approval.approvals_needed, settings.approval_threshold),
  allowSelfApproval: settings.allow_self_approval,
})

/** Whether a person with this role may vote on an approval that needs `approver`. */
export function mayDecide(role: Role | null | undefined, approver: 'admin' | 'owner'): boolean {
  return role === 'owner' || (approver === 'admin' && role === 'admin')
}

/**
 * Returns the reason why a person's vote does not count; null if the vote counts. The service checks this when the
 * person votes, and again when a call uses the approval. Between these two moments, the voter's role or the setting on
 * self-approval may have changed. So a vote that counted first may not count later.
 */
export function voteRefusal(
  voter: Pick<VoteWithRole, 'user_id' | 'role'>,
  requestedBy: string,
  required: Requirement,
): 'not_an_approver' | 'self_approval' | null {
  if (!mayDecide(voter.role, required.approver)) return 'not_an_approver'
  if (voter.user_id === requestedBy && !required.allowSelfApproval) return 'self_approval'
  return null
}

/** The number of approving votes that count now. */
export const countingVotes = (
  votes: readonly VoteWithRole[],
  requestedBy: string,
  required: Requirement,
): number =>
  votes.filter((vote) => vote.decision === 'approve' && voteRefusal(vote, requestedBy, required) === null)
    .length
