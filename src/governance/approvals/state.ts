import { sql, type RawBuilder } from 'kysely'
import type { ApprovalStatus } from '../../contract/status.ts'
import { countingVotes, type FirstPeople, type Requirement, type VoteWithRole } from './requirement.ts'

/**
 * - `pending`: also an approved approval whose votes are no longer enough;
 * - `expired`: the stored status can still be `pending`, or `approved` if it was not used in time;
 * - `withdrawn`: the stored status is `cancelled`;
 * - `used`: another call has used the approval;
 * - `revised`: a person has edited what it covered.
 */
export type ApprovalState = 'pending' | 'usable' | 'rejected' | 'expired' | 'withdrawn' | 'used' | 'revised'

interface Expiring {
  readonly status: ApprovalStatus
  readonly expires_at: string | Date | null
}

/**
 * `now` is the database's clock, read under the chain lock. If `user`, in the format of `used_by`, has used
 * the approval before, it also covers their retries, even after `expires_at`.
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
  if (approval.status === 'revised') return 'revised'
  if (approval.status === 'cancelled') return 'withdrawn'
  if (approval.status === 'expired' || (!isOwn && isOver(approval, now))) return 'expired'
  if (approval.status === 'pending') return 'pending'
  return countingVotes(votes, approval, required) >= required.needed ? 'usable' : 'pending'
}

export const isDue = (approval: Expiring, now: Date): boolean =>
  approval.status === 'pending' && isOver(approval, now)

/** An approval without `expires_at` never expires. */
const isOver = ({ expires_at }: Expiring, now: Date): boolean =>
  expires_at !== null && new Date(expires_at) <= now

export const isOverSql = (now: RawBuilder<Date>): RawBuilder<boolean> =>
  sql<boolean>`(expires_at is not null and expires_at <= ${now})`
