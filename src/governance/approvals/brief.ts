import { sql } from 'kysely'
import type { ApprovalStatus } from '../../contract/status.ts'
import type { ApprovalRevision } from '../../db/schema/runs.ts'
import { shownSeats, type ShownSeat } from '../../policy/seats.ts'
import { storedSeats, type StoredTerms } from './requirement.ts'
import type { VoteView } from './votes.ts'

/** What everybody who sees a run sees of its approvals: who decided, and nothing of what they cover. */
export interface ApprovalBrief {
  readonly id: string
  readonly status: ApprovalStatus
  readonly approvers: readonly ShownSeat[]
  readonly votes: readonly VoteView[]
  /** Null: nobody has edited what it covers. It has no values. */
  readonly revision: (ApprovalRevision & { readonly by: string }) | null
}

/** From a joined table: all are null where the join found no row. */
export interface BriefRow {
  readonly approval_status: ApprovalStatus | null
  readonly approver: StoredTerms['approver']
  readonly approvals_needed: number | null
  readonly seats: StoredTerms['seats']
  readonly revision: ApprovalRevision | null
  /** A mail address. */
  readonly revised_by: string | null
}

/** The table `approvals` must be called `a`. */
export const briefColumns = [
  'a.status as approval_status',
  'a.approver',
  'a.approvals_needed',
  'a.seats',
  'a.revision',
  sql<string | null>`(select email from users where id = a.answered_by)`.as('revised_by'),
] as const

export function briefOf(
  id: string,
  { approval_status, approver, approvals_needed, seats, revision, revised_by }: BriefRow,
  votes: ReadonlyMap<string, readonly VoteView[]>,
): ApprovalBrief {
  const terms = { approver, approvals_needed: approvals_needed ?? 1, seats }
  return {
    id,
    status: approval_status ?? 'cancelled',
    approvers: shownSeats(storedSeats(terms)),
    votes: votes.get(id) ?? [],
    revision: revision === null || revised_by === null ? null : { by: revised_by, ...revision },
  }
}
