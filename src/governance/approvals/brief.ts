import type { ApprovalStatus } from '../../contract/status.ts'
import { shownSeats, type ShownSeat } from '../../policy/seats.ts'
import { storedSeats, type StoredTerms } from './requirement.ts'
import type { VoteView } from './votes.ts'

/** What everybody who sees a run sees of its approvals: who decided, and nothing of what they cover. */
export interface ApprovalBrief {
  readonly id: string
  readonly status: ApprovalStatus
  readonly approvers: readonly ShownSeat[]
  readonly votes: readonly VoteView[]
}

/** From a joined table: all are null where the join found no row. */
export interface BriefRow {
  readonly approval_status: ApprovalStatus | null
  readonly approver: StoredTerms['approver']
  readonly approvals_needed: number | null
  readonly seats: StoredTerms['seats']
}

/** The table `approvals` must be called `a`. */
export const briefColumns = [
  'a.status as approval_status',
  'a.approver',
  'a.approvals_needed',
  'a.seats',
] as const

export function briefOf(
  id: string,
  { approval_status, approver, approvals_needed, seats }: BriefRow,
  votes: ReadonlyMap<string, readonly VoteView[]>,
): ApprovalBrief {
  const terms = { approver, approvals_needed: approvals_needed ?? 1, seats }
  return {
    id,
    status: approval_status ?? 'cancelled',
    approvers: shownSeats(storedSeats(terms)),
    votes: votes.get(id) ?? [],
  }
}
