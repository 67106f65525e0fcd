import type { Role } from '../../policy/types.ts'
import type { GovernanceSettings } from '../../policy/settings.ts'

/**
 * The role that may vote, the number of votes needed, and whether the votes of the requester and of the authors count.
 */
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

/** The people who are no second person: who asked for the call or run, and who wrote the version that runs. */
export interface FirstPeople {
  readonly requested_by: string
  /** Ids of the authors of the run's version. Is empty for an agent's call. */
  readonly authors: readonly string[]
}

/**
 * Returns the requirement that an approval must satisfy now. The number of votes is the approval's stored number or the
 * organization's current threshold, whichever is larger. The current setting decides whether the votes of
 * the requester and of the authors count.
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
 * self-approval may have changed. So a vote that counted first may not count later. `own_request` and `own_text` are the
 * two reasons of the error `self_approval`.
 */
export function voteRefusal(
  voter: Pick<VoteWithRole, 'user_id' | 'role'>,
  first: FirstPeople,
  required: Requirement,
): 'not_an_approver' | 'own_request' | 'own_text' | null {
  if (!mayDecide(voter.role, required.approver)) return 'not_an_approver'
  if (required.allowSelfApproval) return null
  if (voter.user_id === first.requested_by) return 'own_request'
  return first.authors.includes(voter.user_id) ? 'own_text' : null
}

/**
 * Returns the reason why a person cannot decide an approval now; null if they can. `voted` means that their vote counts
 * already and others are missing. If enough votes count now, for example because a voter has their role again, any of
 * these people can vote again, and so decides the approval.
 */
export function decisionRefusal(
  voter: Pick<VoteWithRole, 'user_id' | 'role'>,
  approval: FirstPeople & { readonly votes: readonly VoteWithRole[] },
  required: Requirement,
): ReturnType<typeof voteRefusal> | 'voted' {
  const refusal = voteRefusal(voter, approval, required)
  if (refusal !== null || !approval.votes.some(({ user_id }) => user_id === voter.user_id)) return refusal
  return countingVotes(approval.votes, approval, required) < required.needed ? 'voted' : null
}

/** The number of approving votes that count now. */
export const countingVotes = (
  votes: readonly VoteWithRole[],
  first: FirstPeople,
  required: Requirement,
): number =>
  votes.filter((vote) => vote.decision === 'approve' && voteRefusal(vote, first, required) === null).length
