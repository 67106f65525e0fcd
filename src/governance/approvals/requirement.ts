import type { Role } from '../../policy/types.ts'
import type { GovernanceSettings } from '../../policy/settings.ts'

export interface Requirement {
  readonly approver: 'admin' | 'owner'
  /** The organization's threshold or the rule's number, whichever is larger. */
  readonly needed: number
  readonly allowSelfApproval: boolean
}

export type VoteSettings = Pick<GovernanceSettings, 'allow_self_approval' | 'approval_threshold'>

/** `role` is the current role; null if the voter has left the organization. */
export interface VoteWithRole {
  readonly user_id: string
  readonly decision: 'approve' | 'reject'
  readonly role: Role | null
}

/** No second person: who asked for the call or run, and who wrote the version that runs. */
export interface FirstPeople {
  readonly requested_by: string
  /** Is empty for an agent's call. */
  readonly authors: readonly string[]
}

/** Uses the larger of the stored number and the current threshold, and the current settings. */
export const requirementOf = (
  approval: { readonly approver: 'admin' | 'owner'; readonly approvals_needed: number },
  settings: VoteSettings,
): Requirement => ({
  approver: approval.approver,
  needed: Math.max(approval.approvals_needed, settings.approval_threshold),
  allowSelfApproval: settings.allow_self_approval,
})

export function mayDecide(role: Role | null | undefined, approver: 'admin' | 'owner'): boolean {
  return role === 'owner' || (approver === 'admin' && role === 'admin')
}

/**
 * Null if the vote counts. Checked at the vote and again at its use, because the voter's role or the setting
 * on self-approval may change. `own_request` and `own_text` are the reasons of the error `self_approval`.
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
 * Null if they can. `voted`: their vote counts, but others are missing. If enough votes count now, for
 * example because a voter has their role again, any of these people can decide by voting again.
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

export const countingVotes = (
  votes: readonly VoteWithRole[],
  first: FirstPeople,
  required: Requirement,
): number =>
  votes.filter((vote) => vote.decision === 'approve' && voteRefusal(vote, first, required) === null).length
