import { describe, expect, test } from '@jest/globals'
import type { ApprovalStatus } from '../../../src/contract/status.ts'
import type { Requirement, VoteWithRole } from '../../../src/governance/approvals/requirement.ts'
import { approvalState, isDue, type ApprovalState } from '../../../src/governance/approvals/state.ts'

const now = new Date('2026-03-01T12:00:00.000Z')
const before = '2026-03-01T11:59:59.999+00:00'
const after = new Date('2026-03-01T12:00:00.001Z')
const own = 'run_1/s/-1'

const byAdmin: VoteWithRole = { user_id: 'usr_admin', decision: 'approve', role: 'admin' }
const byOwner: VoteWithRole = { user_id: 'usr_owner', decision: 'approve', role: 'owner' }
const byRequester: VoteWithRole = { user_id: 'usr_requester', decision: 'approve', role: 'admin' }
const oneAdmin: Requirement = { approver: 'admin', needed: 1, allowSelfApproval: false }

interface Case {
  readonly status: ApprovalStatus
  readonly expires_at?: string | Date | null
  readonly used_by?: string | null
  readonly votes?: readonly VoteWithRole[]
  readonly required?: Partial<Requirement>
}

const stateOf = ({ status, expires_at = after, used_by = null, votes = [], required = {} }: Case) =>
  approvalState(
    { status, expires_at, used_by, authors: [], requested_by: 'usr_requester' },
    votes,
    { ...oneAdmin, ...required },
    now,
    own,
  )

const given = { status: 'approved', votes: [byAdmin] } as const
const cases: readonly (readonly [string, Case, ApprovalState])[] = [
  ['waits for votes', { status: 'pending' }, 'pending'],
  ['has enough votes, but they were not counted yet', { ...given, status: 'pending' }, 'pending'],
  ['waits without an end', { status: 'pending', expires_at: null }, 'pending'],
  ['waits, and its time is over', { status: 'pending', expires_at: before }, 'expired'],
  ['waits, and its time is over at this very moment', { status: 'pending', expires_at: now }, 'expired'],
  ['is stored as expired', { status: 'expired' }, 'expired'],
  ['is stored as expired without an end', { status: 'expired', expires_at: null }, 'expired'],
  ['was approved', given, 'usable'],
  ['was approved without an end', { ...given, expires_at: null }, 'usable'],
  ['was approved and not used in time', { ...given, expires_at: before }, 'expired'],
  ['was approved and used by another call', { ...given, used_by: 'run_2/s/-1' }, 'used'],
  ['was used by another call, and its time is over', { ...given, used_by: 'run_2/s/-1', expires_at: before }, 'used'],
  ['was used by this call', { ...given, used_by: own }, 'usable'],
  ['was used by this call, and its time is over', { ...given, used_by: own, expires_at: before }, 'usable'],
  ['was used by this call, and its voter lost the role', { ...given, used_by: own, votes: [{ ...byAdmin, role: 'member' }] }, 'pending'],
  ['was rejected', { status: 'rejected' }, 'rejected'],
  ['was rejected, and its time is over', { status: 'rejected', expires_at: before }, 'rejected'],
  ['was withdrawn', { status: 'cancelled' }, 'withdrawn'],
  ['was withdrawn, and its time is over', { status: 'cancelled', expires_at: before }, 'withdrawn'],
  ['was approved without any vote', { status: 'approved' }, 'pending'],
  ['now needs two votes and has one', { ...given, required: { needed: 2 } }, 'pending'],
  ['now needs two votes and has two', { ...given, votes: [byAdmin, byOwner], required: { needed: 2 } }, 'usable'],
  ['now needs an owner and has an admin', { ...given, required: { approver: 'owner' } }, 'pending'],
  ['now needs an owner and has one', { ...given, votes: [byOwner], required: { approver: 'owner' } }, 'usable'],
  ['has a voter who is a member now', { ...given, votes: [{ ...byAdmin, role: 'member' }] }, 'pending'],
  ['has a voter who has left', { ...given, votes: [{ ...byAdmin, role: null }] }, 'pending'],
  ['has the requester’s vote only', { ...given, votes: [byRequester] }, 'pending'],
  ['has the requester’s vote where that counts', { ...given, votes: [byRequester], required: { allowSelfApproval: true } }, 'usable'],
  ['has a rejecting vote only', { ...given, votes: [{ ...byAdmin, decision: 'reject' }] }, 'pending'],
] // prettier-ignore

describe('the state of an approval that', () => {
  test.each(cases)('%s', (_name, approval, expected) => {
    expect(stateOf(approval)).toBe(expected)
  })
})

describe('an approval is marked as expired if it', () => {
  test.each([
    ['is pending and its time is over', 'pending', before, true],
    ['is pending and its time is not over', 'pending', after, false],
    ['is pending without an end', 'pending', null, false],
    ['was approved and its time is over', 'approved', before, false],
    ['is marked already', 'expired', before, false],
  ] as const)('%s', (_name, status, expires_at, expected) => {
    expect(isDue({ status, expires_at }, now)).toBe(expected)
  })
})
