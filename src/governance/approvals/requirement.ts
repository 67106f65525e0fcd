import {
  isPerson,
  isRole,
  peopleFor,
  roleOf,
  withThreshold,
  type HeldLater,
  type HeldSeat,
  type RoleSeat,
} from '../../policy/seats.ts'
import type { Role } from '../../policy/types.ts'
import type { ApprovalKind } from '../../contract/status.ts'
import type { GovernanceSettings } from '../../policy/settings.ts'

export interface Requirement {
  /** All of them are needed, by different people. */
  readonly seats: readonly HeldSeat[]
  /** The least number of people: the organization's threshold, or one for each seat, whichever is larger. */
  readonly needed: number
  readonly allowSelfApproval: boolean
  /** They typed values of the call, so their votes do not count, whatever the settings are. */
  readonly typedBy?: readonly string[]
  /** Whoever started the run: their word counts beside that of the approver who edited the call. */
  readonly confirmer?: string | null
}

export type VoteSettings = Pick<GovernanceSettings, 'allow_self_approval' | 'approval_threshold'>

/** A person's rights at this moment: their own, or those of an absent person whose deputy they are. */
export interface Rights {
  /** The absent person; null for their own rights. */
  readonly for_user: string | null
  /** Null if the person has left the organization, or the absence does not cover the vote any more. */
  readonly role: Role | null
  /** Ids. */
  readonly groups: readonly string[]
}

export interface Voter extends Rights {
  readonly user_id: string
  /** When they voted, or could vote. */
  readonly at: Date | string
}

/** Votes by the same right are one vote for the seats. */
const holderOf = ({ user_id, for_user }: Pick<Voter, 'user_id' | 'for_user'>): string => for_user ?? user_id

export interface VoteWithRole extends Voter {
  readonly decision: 'approve' | 'reject'
}

/** No second person: who asked for the call or run, and who wrote the version that runs. */
export interface FirstPeople {
  readonly requested_by: string
  /** Is empty for an agent's call. */
  readonly authors: readonly string[]
}

/** As stored. Without groups, `seats` is null, and the role fills all of them. */
export interface StoredTerms {
  readonly approver: RoleSeat['role'] | null
  readonly approvals_needed: number
  readonly seats: readonly HeldSeat[] | null
}

export const storedSeats = ({ approver, approvals_needed: count, seats }: StoredTerms): readonly HeldSeat[] =>
  seats ?? [approver === null ? { group: '', id: null, count } : { role: approver, count }]

export const termsToStore = ({ seats, needed }: Pick<Requirement, 'seats' | 'needed'>): StoredTerms => ({
  approver: roleOf(seats),
  approvals_needed: needed,
  seats: seats.every((seat) => isRole(seat) && seat.also === undefined) ? null : seats,
})

/** What decides, with the stored terms, who can approve now. */
export interface TermsOfKind extends StoredTerms {
  readonly kind: ApprovalKind
  readonly typed_by: readonly string[]
}

/**
 * An approver who edits a call has voted for it, and somebody else must vote too. The values that a requester typed
 * need the votes of others.
 */
export const typingTerms = (approval: TermsOfKind): Pick<Requirement, 'typedBy' | 'confirmer'> =>
  approval.kind === 'edit'
    ? { typedBy: [], confirmer: storedSeats(approval).find(isPerson)?.id ?? null }
    : { typedBy: approval.typed_by, confirmer: null }

/**
 * Uses the larger of the stored number and the current threshold, and the current settings. These are about calls: a
 * change always needs one other person, and a question one person.
 */
export function requirementOf(approval: TermsOfKind, settings: VoteSettings): Requirement {
  // One person answers, edits, or says that a call is made once more. The people who wrote or started the run may.
  if (approval.kind === 'ask' || approval.kind === 'repeat' || approval.kind === 'revision')
    return { seats: storedSeats(approval), needed: 1, allowSelfApproval: true }
  if (approval.kind === 'change')
    return { seats: storedSeats(approval), needed: approval.approvals_needed, allowSelfApproval: false }
  const needed = Math.max(approval.approvals_needed, settings.approval_threshold)
  return {
    seats: withThreshold(storedSeats(approval), needed),
    needed,
    allowSelfApproval: settings.allow_self_approval,
    ...typingTerms(approval),
  }
}

export function mayDecide(role: Role | null | undefined, approver: 'admin' | 'owner'): boolean {
  return role === 'owner' || (approver === 'admin' && role === 'admin')
}

type Filling = Pick<Voter, 'user_id' | 'for_user' | 'role' | 'groups' | 'at'>

/** An owner who is not in the group does not fill its seat. */
const isAmong = (voter: Filling, who: HeldSeat | HeldLater): boolean => {
  const { role, groups } = voter
  if (isRole(who)) return mayDecide(role, who.role)
  return role !== null && who.id !== null && (isPerson(who) ? [holderOf(voter)] : groups).includes(who.id)
}

const canFill = (voter: Filling, seat: HeldSeat): boolean =>
  isAmong(voter, seat) ||
  (seat.also ?? []).some((later) => new Date(later.at) <= new Date(voter.at) && isAmong(voter, later))

export const canFillOne = (voter: Filling, seats: readonly HeldSeat[]): boolean =>
  seats.some((seat) => canFill(voter, seat))

/** When others are asked too, the first time first. */
export const laterTimes = (seats: readonly HeldSeat[]): readonly Date[] =>
  [...new Set(seats.flatMap(({ also = [] }) => also.map(({ at }) => new Date(at).getTime())))]
    .toSorted((a, b) => a - b)
    .map((time) => new Date(time))

/**
 * Null if the vote counts. Checked at the vote and again at its use, because the voter's role, groups or the setting
 * on self-approval may change. The reasons that begin with `own` are those of the error `self_approval`.
 */
export function voteRefusal(
  voter: Voter,
  first: FirstPeople,
  required: Requirement,
): 'not_an_approver' | 'own_request' | 'own_text' | 'own_values' | null {
  if (!canFillOne(voter, required.seats)) return 'not_an_approver'
  const { typedBy = [], confirmer = null } = required
  if (typedBy.includes(voter.user_id)) return 'own_values'
  if (voter.for_user !== null && typedBy.includes(voter.for_user)) return 'not_an_approver'
  if (voter.for_user === null && voter.user_id === confirmer) return null
  if (required.allowSelfApproval) return null
  // The absent person could not decide it either.
  if (voter.for_user !== null && isFirst(voter.for_user, first)) return 'not_an_approver'
  if (voter.user_id === first.requested_by) return 'own_request'
  return first.authors.includes(voter.user_id) ? 'own_text' : null
}

const isFirst = (userId: string, { requested_by, authors }: FirstPeople): boolean =>
  userId === requested_by || authors.includes(userId)

export interface Voted extends FirstPeople {
  readonly votes: readonly VoteWithRole[]
}

/**
 * Null if they can. `voted`: their vote counts, but others are missing. If enough votes count now, for
 * example because a voter has their role again, any of these people can decide by voting again.
 */
export function decisionRefusal(
  voter: Voter,
  approval: Voted,
  required: Requirement,
): ReturnType<typeof voteRefusal> | 'voted' {
  const refusal = voteRefusal(voter, approval, required)
  if (refusal !== null || !approval.votes.some(({ user_id }) => user_id === voter.user_id)) return refusal
  return missingVotes(approval.votes, approval, required) > 0 ? 'voted' : null
}

/** Whether the approval of this person would bring it nearer to its end: its seats may be taken, and others empty. */
export function isWanted(voter: Voter, approval: Voted, required: Requirement): boolean {
  if (decisionRefusal(voter, approval, required) !== null) return false
  const { votes } = approval
  const missing = missingVotes(votes, approval, required)
  return (
    missing === 0 || missingVotes([...votes, { ...voter, decision: 'approve' }], approval, required) < missing
  )
}

/** The rights by which a person votes, if they have several: they count, and bring the approval nearer to its end. */
export function bestOf<V extends Voter>(
  rights: readonly [V, ...V[]],
  approval: Voted,
  required: Requirement,
): V {
  const able = rights.filter((each) => decisionRefusal(each, approval, required) === null)
  const refusedForOwn = rights.find((each) => voteRefusal(each, approval, required) !== 'not_an_approver')
  return able.find((each) => isWanted(each, approval, required)) ?? able[0] ?? refusedForOwn ?? rights[0]
}

/** Of `needed`; all of them only if every seat is filled. */
export const countingVotes = (
  votes: readonly VoteWithRole[],
  first: FirstPeople,
  required: Requirement,
): number => required.needed - missingVotes(votes, first, required)

/** How many more people must approve at least. */
export function missingVotes(
  votes: readonly VoteWithRole[],
  first: FirstPeople,
  required: Requirement,
): number {
  const counting = approving(votes, first, required)
  const filled = fillSeats(required.seats, counting).reduce((sum, count) => sum + count, 0)
  return Math.max(0, peopleFor(required.seats) - filled, required.needed - counting.length)
}

/** Several votes by the same right are the last of them. */
export const approving = (
  votes: readonly VoteWithRole[],
  first: FirstPeople,
  required: Requirement,
): readonly VoteWithRole[] =>
  onceEach(votes.filter((vote) => vote.decision === 'approve' && voteRefusal(vote, first, required) === null))

export const onceEach = <V extends Voter>(voters: readonly V[]): readonly V[] => [
  ...new Map(
    voters
      .toSorted((a, b) => new Date(a.at).getTime() - new Date(b.at).getTime())
      .map((voter) => [holderOf(voter), voter]),
  ).values(),
]

/**
 * For each seat, how many of these people fill it, so that together they fill as many as possible and each fills one
 * (augmenting paths: whoever comes takes a seat, if its holder finds another one).
 */
export function fillSeats(seats: readonly HeldSeat[], people: readonly Voter[]): number[] {
  const holders: Voter[][] = seats.map(() => [])
  const place = (voter: Voter, tried: Set<number>): boolean =>
    seats.some((seat, index) => {
      const own = holders[index] as Voter[]
      if (tried.has(index) || !canFill(voter, seat)) return false
      tried.add(index)
      if (own.length < seat.count) return own.push(voter) > 0
      const moved = own.findIndex((holder) => place(holder, tried))
      if (moved >= 0) own[moved] = voter
      return moved >= 0
    })
  for (const voter of onceEach(people)) place(voter, new Set())
  return holders.map(({ length }) => length)
}
