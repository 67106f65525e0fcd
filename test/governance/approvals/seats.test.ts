import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  bestOf,
  countingVotes,
  fillSeats,
  isWanted,
  missingVotes,
  requirementOf,
  type Requirement,
  type Voter,
  type VoteWithRole,
} from '../../../src/governance/approvals/requirement.ts'
import { whyNobodyCan } from '../../../src/governance/approvals/voters.ts'
import { coverSeats, seatWords, strictest, type HeldLater, type HeldSeat } from '../../../src/policy/seats.ts'
import type { Role } from '../../../src/policy/types.ts'

const group = (name: string, count = 1): HeldSeat => ({ group: name, id: `grp_${name}`, count })
const role = (name: 'admin' | 'owner', count = 1): HeldSeat => ({ role: name, count })
const first = { requested_by: 'usr_asker', authors: ['usr_author'] }

const later = (at: number) => new Date(at * 1_000).toISOString()

/**
 * `ann member finance legal`: a person with this role, in these groups. `ann/bob`: Ann, with the rights of Bob, who is
 * away. `ann@9`: at the second 9, else at 0.
 */
function person(text: string): Voter {
  const [who = '', has = '', ...groups] = text.split(' ')
  const [voter = '', at = '0'] = who.split('@')
  const [name = '', absent] = voter.split('/')
  return {
    user_id: `usr_${name}`,
    for_user: absent === undefined ? null : `usr_${absent}`,
    at: later(Number(at)),
    role: has === 'gone' ? null : (has as Role),
    groups: groups.map((each) => `grp_${each}`),
  }
}
const votes = (...texts: readonly string[]): VoteWithRole[] =>
  texts.map((text) => ({ ...person(text), decision: 'approve' }))

const both = [group('finance'), group('legal')]
/** Legal is asked too after nine seconds. */
const escalated: HeldSeat = {
  ...group('finance'),
  also: [{ group: 'legal', id: 'grp_legal', at: later(9) }],
}
const needs = (seats: readonly HeldSeat[], needed = 0, allowSelfApproval = false): Requirement => ({
  seats,
  needed: Math.max(
    needed,
    seats.reduce((sum, { count }) => sum + count, 0),
  ),
  allowSelfApproval,
})

describe('the votes that are missing', () => {
  const rows: readonly (readonly [string, Requirement, readonly string[], number])[] = [
    ['all of them', needs(both), [], 2],
    ['one of each group', needs(both), ['ann member finance', 'bob viewer legal'], 0],
    ['two of one group do not fill the other', needs(both), ['ann member finance', 'bob member finance'], 1],
    ['a person in both groups counts once', needs(both), ['ann member finance legal'], 1],
    [
      'a person in both leaves the seat that only another can take',
      needs(both),
      ['ann member finance legal', 'bob member finance'],
      0,
    ],
    ['an owner who is in no group', needs(both), ['olga owner'], 2],
    ['a former member', needs([group('finance')]), ['ann gone finance'], 1],
    ['the requester', needs([group('finance')]), ['asker member finance'], 1],
    ['the requester, if that is allowed', needs([group('finance')], 0, true), ['asker member finance'], 0],
    ['an author', needs([group('finance')]), ['author member finance'], 1],
    ['a role and a group', needs([role('admin'), group('finance')]), ['ann admin finance'], 1],
    [
      'a role and a group, both',
      needs([role('admin'), group('finance')]),
      ['ann admin finance', 'bob owner'],
      0,
    ],
    ['more people than seats', needs(both, 3), ['ann member finance', 'bob member legal'], 1],
    [
      'more people than seats, from any of them',
      needs(both, 3),
      ['ann member finance', 'bob member legal', 'cy member finance'],
      0,
    ],
    ['more people, and one seat is empty', needs(both, 2), ['ann member finance', 'cy member finance'], 1],
    ['who is asked later, before', needs([escalated]), ['bob member legal'], 1],
    ['who is asked later, when they are', needs([escalated]), ['bob member legal@9'], 1],
    ['who is asked later, then', needs([escalated]), ['bob@9 member legal'], 0],
    ['who is asked first, then too', needs([escalated]), ['ann@9 member finance'], 0],
    [
      'one of each, when both groups may fill a seat',
      needs([escalated, group('legal')]),
      ['bob@9 member legal'],
      1,
    ],
    [
      'two of one group, when it may fill both',
      needs([escalated, group('legal')]),
      ['bob@9 member legal', 'cy@9 member legal'],
      0,
    ],
    ['a deputy', needs([group('finance')]), ['dan/ann viewer finance'], 0],
    [
      'a deputy whose absence covers the vote no more',
      needs([group('finance')]),
      ['dan/ann gone finance'],
      1,
    ],
    [
      'a deputy and the absent person are one vote',
      needs([group('finance', 2)]),
      ['dan/ann member finance', 'ann member finance'],
      1,
    ],
    [
      'two deputies of two people',
      needs([group('finance', 2)]),
      ['dan/ann member finance', 'eve/bob member finance'],
      0,
    ],
    ['a deputy of the requester', needs([group('finance')]), ['dan/asker member finance'], 1],
    ['a deputy who is the requester', needs([group('finance')]), ['asker/ann member finance'], 1],
    ['a deputy of an author', needs([group('finance')]), ['dan/author member finance'], 1],
    ['a group that does not exist', needs([{ group: 'gone', id: null, count: 1 }]), ['ann owner'], 1],
  ]
  test.each(rows)('%s', (_name, required, cast, missing) => {
    expect(missingVotes(votes(...cast), first, required)).toBe(missing)
    expect(countingVotes(votes(...cast), first, required)).toBe(required.needed - missing)
  })
})

test('a new group with the name of a deleted one does not fill its seat', () => {
  const old: HeldSeat = { group: 'finance', id: 'grp_old', count: 1 }
  expect(missingVotes(votes('ann member finance'), first, needs([old]))).toBe(1)
  expect(strictest([old, group('finance', 2)])).toHaveLength(2)
})

test('who is asked: people whose approval brings it nearer to its end', () => {
  const asked = (text: string, ...cast: readonly string[]) =>
    isWanted(person(text), { ...first, votes: votes(...cast) }, needs(both))
  expect(asked('bob member finance')).toBe(true)
  expect(asked('bob member finance', 'ann member finance')).toBe(false)
  expect(asked('bob member legal', 'ann member finance')).toBe(true)
  // Ann can take the seat of legal.
  expect(asked('bob member finance', 'ann member finance legal')).toBe(true)
  expect(asked('ann member finance legal', 'ann member finance legal')).toBe(false)
})

test('why nobody can give it, and what to do', () => {
  const why = (people: readonly string[], required = needs(both)) =>
    whyNobodyCan(people.map(person), { ...first, kind: 'step', votes: [], expires_at: null }, required)
  expect(why(['ann member finance', 'bob member legal'])).toBeNull()
  expect(why(['ann member finance legal'])).toBe(
    'too few people can still vote, so it cannot be approved now: it lacks 1 member of `legal`. An owner can add members to the group',
  )
  expect(why(['asker owner'], needs([role('admin')]))).toMatch(
    /it lacks an admin or owner\. An owner can give more people a role that decides$/,
  )
  expect(why(['ann member finance'], needs([group('finance')], 2))).toMatch(/it lacks 1 more\. /)
})

test('nobody can give it before others are asked', () => {
  const why = (people: readonly string[], expires_at: Date | null = null) =>
    whyNobodyCan(people.map(person), { ...first, kind: 'step', votes: [], expires_at }, needs([escalated]))
  expect(why(['bob member legal'])).toBe(
    'nobody can give it before 1970-01-01T00:00:09Z, when a member of `legal` is asked too',
  )
  expect(why(['cy member'])).toMatch(/it lacks 1 member of `finance`/)
  // Whoever is asked after its end, or at it, cannot give it.
  expect(why(['bob member legal'], new Date(9_001))).toMatch(/before 1970-01-01T00:00:09Z/)
  expect(why(['bob member legal'], new Date(9_000))).toMatch(/it lacks 1 member of `finance`/)
})

test('of several rights, a person votes by those that are wanted', () => {
  const rights = [
    person('dan member finance'),
    person('dan/ann member legal'),
    person('dan/asker admin'),
  ] as const
  const by = (...cast: readonly string[]) =>
    bestOf(rights, { ...first, votes: votes(...cast) }, needs(both)).for_user
  expect(by()).toBeNull()
  expect(by('bob member finance')).toBe('usr_ann')
  expect(by('bob member finance', 'ann member legal')).toBeNull()
})

test('the words for who decides', () => {
  expect(seatWords([role('owner', 2)])).toBe('an owner')
  expect(seatWords([role('admin', 2)], 'counted')).toBe('2 admins or owners')
  expect(seatWords([group('finance', 2), group('legal'), role('admin')])).toBe(
    '2 members of `finance`, 1 member of `legal` and 1 admin or owner',
  )
})

test('a stored approval without groups is one seat of its role, for as many people as are needed', () => {
  const settings = { allow_self_approval: false, approval_threshold: 3 }
  expect(
    requirementOf(
      { kind: 'step', approver: 'owner', approvals_needed: 2, seats: null, typed_by: [] },
      settings,
    ),
  ).toEqual({
    seats: [role('owner', 3)],
    needed: 3,
    allowSelfApproval: false,
    typedBy: [],
    confirmer: null,
  })
})

/* Compared with all ways of giving each person at most one seat. */

const plainSeats = fc.array(
  fc.oneof(
    fc.record({
      role: fc.constantFrom('admin' as const, 'owner' as const),
      count: fc.integer({ min: 1, max: 2 }),
    }),
    fc
      .record({ name: fc.constantFrom('a', 'b', 'c'), count: fc.integer({ min: 1, max: 2 }) })
      .map(({ name, count }) => group(name, count)),
  ),
  { minLength: 1, maxLength: 4 },
)
const someLater = fc.uniqueArray(
  fc
    .record({ name: fc.constantFrom('a', 'b', 'owner'), at: fc.integer({ min: 1, max: 3 }) })
    .map(({ name, at }) =>
      name === 'owner'
        ? { role: 'owner' as const, at: later(at) }
        : { group: name, id: `grp_${name}`, at: later(at) },
    ),
  { maxLength: 2, selector: (each) => ('role' in each ? '' : each.group) },
)
const someSeats = fc
  .tuple(plainSeats, fc.array(someLater, { maxLength: 4 }))
  .map(([seats, also]) => seats.map((seat, at): HeldSeat => ({ ...seat, also: also[at] ?? [] })))
const somePeople = fc
  .array(
    fc.record({
      role: fc.constantFrom<Role>('viewer', 'member', 'admin', 'owner'),
      groups: fc.subarray(['grp_a', 'grp_b', 'grp_c']),
      at: fc.integer({ min: 0, max: 4 }).map(later),
    }),
    { maxLength: 6 },
  )
  .map((people) => people.map((each, index) => ({ ...each, user_id: `usr_${index}`, for_user: null })))

function mostFilled(seats: readonly HeldSeat[], people: readonly Voter[]): number {
  const [next, ...rest] = people
  if (next === undefined) return 0
  let most = mostFilled(seats, rest)
  for (const [index, seat] of seats.entries()) {
    if (seat.count === 0 || !fits(next, seat)) continue
    const left = seats.map((each, at) => (at === index ? { ...each, count: each.count - 1 } : each))
    most = Math.max(most, 1 + mostFilled(left, rest))
  }
  return most
}
const isOne = (voter: Voter, who: HeldSeat | HeldLater): boolean =>
  'role' in who
    ? voter.role === 'owner' || (voter.role === 'admin' && who.role === 'admin')
    : voter.groups.includes(who.id ?? '')
const fits = (voter: Voter, seat: HeldSeat): boolean =>
  isOne(voter, seat) || (seat.also ?? []).some((each) => each.at <= String(voter.at) && isOne(voter, each))

test('as many seats are filled as any assignment can fill', () => {
  let rearranged = 0
  fc.assert(
    fc.property(strictSeats(), somePeople, (seats, people) => {
      const filled = fillSeats(seats, people)
      filled.forEach((count, index) => expect(count).toBeLessThanOrEqual(seats[index]?.count ?? 0))
      const sum = filled.reduce((all, count) => all + count, 0)
      expect(sum).toBe(mostFilled(seats, people))
      // More than if everybody had taken the first free seat.
      rearranged += sum > greedy(seats, people) ? 1 : 0
    }),
    { numRuns: 2_000 },
  )
  expect(rearranged).toBeGreaterThan(10)
})

const strictSeats = () => someSeats.map((seats) => strictest(seats))

function greedy(seats: readonly HeldSeat[], people: readonly Voter[]): number {
  const left = seats.map(({ count }) => count)
  let filled = 0
  for (const voter of people) {
    const index = seats.findIndex((seat, at) => (left[at] ?? 0) > 0 && fits(voter, seat))
    if (index < 0) continue
    left[index] = (left[index] ?? 0) - 1
    filled += 1
  }
  return filled
}

test('people who fill the strictest of several lists fill each of them', () => {
  fc.assert(
    fc.property(strictSeats(), strictSeats(), somePeople, (one, two, people) => {
      const all = strictest([...one, ...two])
      expect([coverSeats(all, one), coverSeats(all, two)]).toEqual([true, true])
      const total = all.reduce((sum, { count }) => sum + count, 0)
      if (mostFilled(all, people) < total) return
      for (const seats of [one, two])
        expect(mostFilled(seats, people)).toBe(seats.reduce((sum, { count }) => sum + count, 0))
    }),
    { numRuns: 1_000 },
  )
})
