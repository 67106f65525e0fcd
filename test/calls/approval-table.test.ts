import { describe, expect, test } from '@jest/globals'
import {
  heldAgain,
  standingOf,
  stepOf,
  tableOfAgent,
  tableOfRun,
  type Standing,
  type Step,
} from '../../src/calls/approval-table.ts'
import { approvalState } from '../../src/governance/approvals/state.ts'
import { oneAdmin } from '../../src/policy/seats.ts'
import { refused, type Decided } from '../../src/policy/decide.ts'

/** The step in words. `!` marks that the approval is first marked as expired. */
function inWords(step: Step): string {
  const note = 'notes' in step ? '!' : ''
  if (step.does === 'hold_again') return `again: ${step.because}${note}`
  if (step.does === 'end') return `end: ${step.outcome}${note}`
  return step.does
}

/** Each standing with the steps of a run's call and of an agent's call: if an approval is required, and if it is not. */
const cells: readonly (readonly [Standing, ...string[]])[] = [
  // standing      run, required      run, free         agent, required  agent, free
  ['none', 'hold', 'go', 'hold', 'go'],
  ['used', 'again: used', 'go', 'hold', 'go'],
  ['rejected', 'end: rejected', 'end: rejected', 'end: rejected', 'go'],
  ['withdrawn', 'end: cancelled', 'end: cancelled', 'hold', 'go'],
  ['revised', 'again: revised', 'go', 'again: revised', 'go'],
  ['expired', 'end: expired', 'end: expired', 'hold', 'go'],
  ['overdue', 'end: expired!', 'end: expired!', 'again: late!', 'go'],
  ['unused', 'end: expired', 'go', 'again: late', 'go'],
  ['other_params', 'again: params', 'go', 'again: params', 'go'],
  ['new_labels', 'again: labels', 'go', 'again: labels', 'go'],
  ['pending', 'wait', 'go', 'wait', 'go'],
  ['few_votes', 'again: votes', 'go', 'again: votes', 'go'],
  ['new_state', 'again: state', 'go', 'again: state', 'go'],
  ['usable', 'use', 'go', 'use', 'go'],
]

const verdict = (name: Decided['verdict']): Decided => ({ ...refused('r', 'e'), verdict: name })

describe('the table', () => {
  test.each(cells)('%s', (standing, ...expected) => {
    const steps = [tableOfRun, tableOfAgent].flatMap((table) =>
      (['require_approval', 'allow'] as const).map((name) => inWords(stepOf(table, standing, verdict(name)))),
    )
    expect(steps).toEqual(expected)
  })

  test('has no other row', () => {
    const rows = cells.map(([standing]) => standing).sort()
    for (const table of [tableOfRun, tableOfAgent]) expect(Object.keys(table).sort()).toEqual(rows)
  })

  test('says why a call ends or is held again', () => {
    const ends = Object.values(tableOfRun).flatMap(({ required, free }) => [required, free])
    const reasons = ends.flatMap((step) => (step.does === 'end' ? [step.reason] : []))
    expect([...new Set(reasons)].sort()).toEqual([
      '',
      'its approval expired before it was used',
      'its approval was withdrawn',
      'nobody approved it in time',
    ])
    const because = Object.values(tableOfAgent).flatMap(({ required }) =>
      required.does === 'hold_again' ? [required.because] : [],
    )
    expect([...new Set([...because, 'used'])].sort()).toEqual(Object.keys(heldAgain).sort())
  })
})

const now = new Date('2030-01-01T12:00:00Z')
const user = 'own'

/** Every approval that a call can find, and every way in which the call can differ from what was approved. */
const found = (['pending', 'approved', 'rejected', 'revised', 'expired', 'cancelled'] as const).flatMap(
  (status) =>
    [null, user, 'other'].flatMap((used_by) =>
      [true, false].flatMap((isOver) =>
        [0, 1].flatMap((votes) =>
          [true, false].flatMap((isSame) =>
            [true, false].flatMap((isShown) =>
              [true, false].map((hasChanged) => ({
                status,
                used_by,
                isOver,
                votes,
                isSame,
                isShown,
                hasChanged,
              })),
            ),
          ),
        ),
      ),
    ),
)
type Found = (typeof found)[number]

function standingIn({ status, used_by, isOver, votes, isSame, isShown, hasChanged }: Found): Standing {
  const approval = {
    status,
    used_by,
    expires_at: new Date(now.getTime() + (isOver ? -1 : 1)).toISOString(),
    requested_by: 'asker',
    authors: [],
    params_hash: 'h',
    labels: ['pii'],
  }
  const given = Array.from(
    { length: votes },
    () =>
      ({ user_id: 'v', for_user: null, at: now, decision: 'approve', role: 'admin', groups: [] }) as const,
  )
  const required = { seats: oneAdmin, needed: 1, allowSelfApproval: false }
  const state = approvalState(approval, given, required, now, user)
  return standingOf(approval, state, {
    paramsHash: isSame ? 'h' : 'other',
    labels: isShown ? ['pii'] : ['pii', 'internal'],
    ...(hasChanged ? { changed: 'the value' } : {}),
  })
}

/** The standings in the order in which they count. The first that is true is the standing. */
const order: readonly (readonly [Standing, (it: Found) => boolean])[] = [
  ['used', (it) => it.used_by === 'other'],
  ['rejected', (it) => it.status === 'rejected'],
  ['withdrawn', (it) => it.status === 'cancelled'],
  ['revised', (it) => it.status === 'revised'],
  ['expired', (it) => it.status === 'expired'],
  ['overdue', (it) => it.status === 'pending' && it.isOver && it.used_by === null],
  ['unused', (it) => it.status === 'approved' && it.isOver && it.used_by === null],
  ['other_params', (it) => !it.isSame],
  ['new_labels', (it) => !it.isShown],
  ['pending', (it) => it.status === 'pending'],
  ['few_votes', (it) => it.votes === 0],
  ['new_state', (it) => it.hasChanged],
  ['usable', () => true],
]

test('an approval has the first standing that is true', () => {
  for (const it of found) {
    const expected = order.find(([, isTrue]) => isTrue(it))?.[0]
    expect([it, standingIn(it)]).toEqual([it, expected])
  }
  expect(new Set(found.map(standingIn)).size).toBe(order.length)
})
