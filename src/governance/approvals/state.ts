import { sql, type RawBuilder } from 'kysely'
import type { ApprovalStatus } from '../../contract/status.ts'
import { countingVotes, type FirstPeople, type Requirement, type VoteWithRole } from './requirement.ts'

/**
 * The state of an approval for a call or run at one moment:
 *
 * - `pending`: the approval needs votes. An approved approval also has this state if its votes are no longer enough;
 * - `usable`: the call or run may go on;
 * - `rejected`: a person rejected the approval;
 * - `expired`: the approval's time is over. The stored status can still be `pending` (the expiry is not recorded yet),
 *   or `approved` (the approval was not used in time);
 * - `withdrawn`: the stored status is `cancelled`;
 * - `used`: another call has used the approval.
 */
export type ApprovalState = 'pending' | 'usable' | 'rejected' | 'expired' | 'withdrawn' | 'used'

interface Expiring {
  readonly status: ApprovalStatus
  readonly expires_at: string | Date | null
}

/**
 * Returns an approval's state. `now` is the database's clock, read under the chain lock. `user` identifies the call or
 * run that asks, in the format of `used_by`. If this call or run has used the approval before, the approval also covers
 * its retries, even after `expires_at`.
 */
export function approvalState(
  approval: Expiring & FirstPeople & { readonly used_by: string | null },
  votes: readonly VoteWithRole[],
  required: Requirement,
  now: Date,
  user: string | null = null,
): ApprovalState {
  const isOwn = approval.used_by !== null && approval.used_by === user
  if (approval.used_by !== null && !isOwn) return 'used'
  if (approval.status === 'rejected') return 'rejected'
  if (approval.status === 'cancelled') return 'withdrawn'
  if (approval.status === 'expired' || (!isOwn && isOver(approval, now))) return 'expired'
  if (approval.status === 'pending') return 'pending'
  return countingVotes(votes, approval, required) >= required.needed ? 'usable' : 'pending'
}

/** Whether a pending approval must be marked as expired. */
export const isDue = (approval: Expiring, now: Date): boolean =>
  approval.status === 'pending' && isOver(approval, now)

/** Whether the approval's time is over. An approval without `expires_at` never expires. */
const isOver = ({ expires_at }: Expiring, now: Date): boolean =>
  expires_at !== null && new Date(expires_at) <= now

/** `isOver` in SQL, for statements that select or change many rows of `approvals`. */
export const isOverSql = (now: RawBuilder<Date>): RawBuilder<boolean> =>
  sql<boolean>`(expires_at is not null and expires_at <= ${now})`
