import { gzipSync } from 'node:zlib'
import { describe, expect, test } from '@jest/globals'
import { h } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { bundleScript } from '../../src/api/console/assets.ts'
import { box, createLayouts, layoutOf, railOf, type GraphStep } from '../../src/console/graph.ts'
import { Approval } from '../../src/console/parts/approval.tsx'
import { Contents, Diff } from '../../src/console/parts/contents.tsx'
import { labelled, Refused } from '../../src/console/parts/form.tsx'
import { countedFromOne, inItemOrder, RunReason } from '../../src/console/parts/items.tsx'
import { OnPhone } from '../../src/console/parts/on-phone.tsx'
import { Receipts } from '../../src/console/parts/receipts.tsx'
import { Sources } from '../../src/console/parts/state.tsx'
import { distance, ReadersZone, Time } from '../../src/console/parts/time.tsx'
import { Values } from '../../src/console/parts/values.tsx'
import { capital, Message, mostShown, whoOf } from '../../src/console/parts/words.tsx'
import {
  whoDecides,
  type FieldProblem,
  type PersonsVisit,
  type ReceiptDecision,
  type RunView,
  type StepView,
} from '../../src/console/visit.ts'
import type { JsonObject } from '../../src/policy/types.ts'
import { plain } from '../api/console/pages-home.ts'

/* Parts of pages, without a server: pictures of steps, lists, sentences and values. */

const layouts = createLayouts()
const steps = (...dependencies: number[][]): GraphStep[] =>
  dependencies.map((needed, place) => ({ id: `s${place}`, depends_on: needed.map((each) => `s${each}`) }))

test('the script of the pages is small: no policy and no schemas are in it', () => {
  const script = bundleScript('page')
  expect(script).toContain('data-island')
  expect(script.length).toBeLessThan(64 * 1024)
})

test('the editor of workflows has at most 150 kB compressed', () => {
  const script = bundleScript('editor')
  expect(gzipSync(script).length).toBeLessThan(150_000)
  expect(script).not.toContain('zod')
})

describe('the picture of steps', () => {
  test('has a box for each step below those that it waits for, and a line for each dependency', () => {
    const layout = layoutOf(layouts, 'diamond', steps([], [0], [0], [1, 2]))
    expect(layout?.lines.map(({ from, to }) => `${from}-${to}`).sort()).toEqual(['0-1', '0-2', '1-3', '2-3'])
    const [first, left, right, last] = layout?.boxes ?? []
    expect(left?.y).toBe(right?.y)
    expect(left?.y).toBeGreaterThan((first?.y ?? 0) + box.height)
    expect(last?.y).toBeGreaterThan((left?.y ?? 0) + box.height)
    expect(Math.abs((left?.x ?? 0) - (right?.x ?? 0))).toBeGreaterThan(box.width)
    for (const { x, y } of layout?.boxes ?? []) {
      expect(x + box.width).toBeLessThanOrEqual(layout?.width ?? 0)
      expect(y + box.height).toBeLessThanOrEqual(layout?.height ?? 0)
    }
    for (const { path } of layout?.lines ?? []) expect(path).toMatch(/^M[\d.]+ [\d.]+(Q[\d. ]+)*L[\d. ]+$/)
  })

  test('has no line that a longer way implies', () => {
    const lines = layoutOf(layouts, 'implied', steps([], [0], [0, 1], [0, 1, 2], [2, 0]))?.lines ?? []
    expect(lines.map(({ from, to }) => `${from}-${to}`).sort()).toEqual(['0-1', '1-2', '2-3', '2-4'])
  })

  test('goes from left to right where many steps stand beside each other', () => {
    const many = Array.from({ length: 8 }, () => [0])
    const layout = layoutOf(layouts, 'fan', steps([], ...many))
    expect(layout?.boxes[1]?.x).toBeGreaterThan((layout?.boxes[0]?.x ?? 0) + box.width)
    expect(layout?.boxes[1]?.x).toBe(layout?.boxes[8]?.x)
  })

  test('is left out for too many steps, or lines over too many rows', () => {
    const chain = (count: number, ...more: number[]) =>
      steps(
        ...Array.from({ length: count }, (_, place) =>
          [1, ...more].map((back) => place - back).filter((each) => each >= 0),
        ),
      )
    expect(layoutOf(layouts, 'short', chain(60))).not.toBeNull()
    expect(layoutOf(layouts, 'long', chain(61))).toBeNull()
    // Twenty steps without a dependency, each needed late in a chain of forty.
    const late = Array.from({ length: 40 }, (_, row) => [
      ...(row > 0 ? [19 + row] : []),
      ...(row > 19 ? [row - 20] : []),
    ])
    expect(layoutOf(layouts, 'dense', steps(...Array.from({ length: 20 }, () => []), ...late))).toBeNull()
    expect(layoutOf(layouts, 'thousand', chain(1_000, 2, 3))).toBeNull()
  })

  test('is the same for a version that was drawn before', () => {
    const drawn = layoutOf(layouts, 'again', steps([], [0]))
    expect(layoutOf(layouts, 'again', steps([], [0]))).toBe(drawn)
  })
})

describe('the picture for narrow screens', () => {
  /** The ends of a line: the rows of its two steps, and the place of its lane. */
  const ends = (path: string) => {
    const [, from, lane, , to] =
      /^M\d+ (\d+)H(\d+)Q\d+ \d+ \d+ (\d+)V(\d+)Q\d+ (\d+) /.exec(path)?.map(Number) ?? []
    return { from: Math.floor((from ?? NaN) / 64), to: Math.floor((to ?? NaN) / 64), lane: lane ?? NaN }
  }

  test('has each step below those that it waits for, and an arrow between them', () => {
    // The definition names step 2 before step 1, which it waits for.
    const rail = railOf(steps([], [2], [0]))
    expect(rail?.rows).toEqual([0, 2, 1])
    expect(rail?.lines.map(({ from, path }) => [from, ends(path)])).toEqual([
      [0, expect.objectContaining({ from: 0, to: 1 })],
      [2, expect.objectContaining({ from: 1, to: 2 })],
    ])
  })

  test('has lines of different steps in different lanes where they are beside each other', () => {
    const lines =
      railOf(steps([], [], [1], [0], [2, 3]))?.lines.map(({ from, path }) => ({
        step: from,
        ...ends(path),
      })) ?? []
    expect(lines).toHaveLength(4)
    for (const one of lines)
      for (const other of lines)
        if (one.step !== other.step && one.from < other.to && other.from < one.to)
          expect([one, other, one.lane === other.lane]).toEqual([one, other, false])
  })

  test('is left out if too many lines stand beside each other', () => {
    const late = (count: number) =>
      steps(...Array.from({ length: count }, () => []), ...Array.from({ length: count }, (_, at) => [at]))
    expect(railOf(late(8))).not.toBeNull()
    expect(railOf(late(9))).toBeNull()
  })
})

describe('an approval of a whole run', () => {
  const step = (id: string) => ({
    id,
    tool: 'mail_send',
    summary: null,
    depends_on: [],
    when: null,
    for_each: null,
  })
  const pageOf = (steps: readonly { id: string; params?: object }[], more: object = {}) => {
    const approval = { kind: 'run', run_id: 'run_x', status: 'pending' }
    const run = { steps: steps.map(({ id }) => step(id)), inputs: {}, definition: { steps }, ...more }
    return renderToString(h(Contents, { approval, run, mayDecide: true, isDone: false } as never))
  }

  test('shows every step that it covers, also those after the first hundred', () => {
    const steps = Array.from({ length: 150 }, (_, n) => ({
      ...step(`step_${n}`),
      tool: n === 149 ? 'mail_send' : 'memory_get',
    }))
    const page = pageOf([], { steps, definition: undefined })
    for (const { id } of steps) expect(page).toContain(`>${id}<`)
    expect(page).toContain('mail_send')
    expect(page).toContain('50 more steps')
  })

  test('shows what each step calls, and says what is missing', () => {
    const page = pageOf([{ id: 'a', params: { to: 'bo@evil.net', text: '{{input.x}}' } }])
    for (const words of ['bo@evil.net', '{{input.x}}', '<code>{{…}}</code> stand for inputs'])
      expect(page).toContain(words)
    expect(pageOf([{ id: 'a', params: { to: 'bo@evil.net' } }])).not.toContain('stand for inputs')
    expect(pageOf([{ id: 'a', params: {} }], { definition: null })).toContain('could not be read')
  })

  test('has one page of room, which its steps share', () => {
    const params = { text: 'x'.repeat(1_000_000) }
    const page = pageOf(['a', 'b'].map((id) => ({ id, params })))
    expect(page.length).toBeLessThan(2_500_000)
    expect(page).toContain('What this step calls is not on this page.')
  })
})

test.each([
  ['item 0 of step `send` waits for approval', 'item 1 of step `send` waits for approval'],
  [
    '12 items of step `a` wait; item 11 of step `b` waits',
    '12 items of step `a` wait; item 12 of step `b` waits',
  ],
  [
    'step `send` was rejected at item 2 of 6 (counted from 0): `a@b.test` rejected it',
    'step `send` was rejected at item 3 of 6: `a@b.test` rejected it',
  ],
  ['the unknown outcome of item 9 of step `s` is', 'the unknown outcome of item 10 of step `s` is'],
  ['step `s` ended the run: item 3 of the list is bad', 'step `s` ended the run: item 3 of the list is bad'],
  ['step `s` waits (rule `item 0 of step `)', 'step `s` waits (rule `item 0 of step `)'],
])('the sentence of the API “%s” is shown as “%s”', (text, shown) => {
  expect(countedFromOne(text)).toBe(shown)
})

test('items of a step stand in order, at the places of the step', () => {
  const of = (place: string) => {
    const [run_id = '', step_id = '', item] = place.split(' ')
    return { run_id, step_id, item_index: item === undefined ? null : Number(item), place }
  }
  const list = ['r a 4', 'r b', 'r a 3', 'q a 9', 'r a 5', 'q a 8', 'r a 3'].map(of)
  const ordered = ['r a 3', 'r b', 'r a 3', 'q a 8', 'r a 4', 'q a 9', 'r a 5']
  expect(inItemOrder(list).map(({ place }) => place)).toEqual(ordered)
})

test('decisions about items are in the order of the items, and name an approval by its link alone', () => {
  const decisionOf = (item_index: number): ReceiptDecision =>
    ({
      decision_id: `dec_${item_index}`,
      step_id: 'send',
      item_index,
      tool: 'mail_send',
      side_effect: 'outbound',
      destination: null,
      verdict: 'allow',
      reason: '',
      explanation: `Rule \`r\` holds it. Its approval \`apr_01M8${item_index}\` lets this one call through.`,
      labels: [],
      approval: {
        id: `apr_01M8${item_index}`,
        status: 'approved',
        approvers: [{ role: 'admin', count: 1 }],
        votes: [],
        revision: null,
      },
      outcome: 'completed',
      decided_at: '2026-11-25T10:00:00.000Z',
    }) as unknown as ReceiptDecision
  const visit = {
    query: new URLSearchParams(),
    now: new Date('2026-11-25T10:01:00.000Z'),
    person: { organizations: [{ id: 'org_1', role: 'member', groups: [] as string[] }] },
  } as unknown as PersonsVisit
  const html = renderToString(
    h(Receipts, {
      receipt: {
        decisions: [2, 0, 1].map(decisionOf),
        run_approvals: [],
        reused: [0, 1].map((item_index) => ({ step_id: 'note', item_index, run_id: 'run_0' })),
        next_cursor: null,
      },
      path: '/console/runs/run_1',
      visit,
      organizationId: 'org_1',
      words: { first: 'First', next: 'Next' },
    }),
  )
  const text = plain(html)
  expect([...text.matchAll(/send, item (\d)/g)].map(([, item]) => item)).toEqual(['1', '2', '3'])
  expect(text).toContain('Rule r holds it. Its approval lets this one call through.')
  expect(text).not.toContain('apr_')
  expect(text).toContain('Not decided anew, but taken over from an earlier run: note')
  const links = [...html.matchAll(/approvals\/apr_01M8(\d)"/g)].map(([, item]) => item)
  expect(links).toEqual(['0', '1', '2'])
})

const completedItems = ' 3 of 6 items of step send completed.'
test.each([
  ['that was rejected also says which items completed all the same', 'rejected', 3, completedItems],
  ['that completed says only its reason', 'completed', 3, ''],
  ['that goes on says only its reason', 'paused', 3, ''],
  ['without a completed item says only its reason', 'rejected', 0, ''],
] as const)('a run %s', (_, status, completed, more) => {
  const stepOf = (id: string, total: number, done: number): StepView =>
    ({ id, items: { total, states: { completed: done, rejected: total - done } } }) as StepView
  const status_reason = 'step `send` was rejected at item 3 of 6 (counted from 0): `a@b.test` rejected it'
  const run: Pick<RunView, 'status' | 'status_reason' | 'steps'> = {
    status,
    status_reason,
    steps: [stepOf('read', 2, 2), stepOf('send', 6, completed)],
  }
  const reason = 'Step send was rejected at item 4 of 6: a@b.test rejected it.'
  expect(plain(renderToString(h(RunReason, { run })))).toBe(reason + more)
})

describe('the sources', () => {
  const words = (from: readonly string[], isAgents = false): string =>
    plain(renderToString(h(Sources, { from, isAgents })))

  test.each([
    [['read'], 'from step read'],
    [['input.topic', 'read'], 'from input topic, step read'],
    [['run_01M84JRMXWJCN4SAPKWPR67K5S/read'], 'from step read of another run'],
    [['file_01M84JRMXWJCN4SAPKWPR67K5S'], 'from file file_01M84JRMXWJCN4SAPKWPR67K5S'],
    [['a', 'b', 'c', 'd', 'e', 'f', 'g'], 'from step a, step b, step c, step d, step e and 2 more'],
    [[], ''],
  ])('%j of a run are “%s”', (from, text) => {
    expect(words(from)).toBe(text)
  })

  test('of an agent are tools, whatever their names', () => {
    expect(words(['Read', 'input.x'], true)).toBe('from tool Read, tool input.x')
  })
})

const [second, minute, hour, day] = [1_000, 60_000, 3_600_000, 86_400_000] as const

test.each([
  [7 * day - 13 * second, '7 days'],
  [7 * day, '7 days'],
  [6.4 * day, '6 days'],
  [36 * hour, '36 hours'],
  [day - 13 * second, '1 day'],
  [day, '1 day'],
  [hour - 13 * second, '1 hour'],
  [90 * minute, '90 minutes'],
  [2 * hour - second, '2 hours'],
  [100 * second, '2 minutes'],
  [89 * second, '1 minute'],
  [61 * second, '1 minute'],
  [58 * second, '58 seconds'],
  [minute, '1 minute'],
  [second, '1 second'],
  [400, '0 seconds'],
  [-5 * minute, '5 minutes'],
])('%d milliseconds are %s', (milliseconds, words) => {
  expect(distance(milliseconds)).toBe(words)
})

test('an exact time has its zone', () => {
  const now = new Date('2026-11-25T23:34:10.000Z')
  const html = renderToString(h(Time, { at: '2026-11-25T23:32:10.000Z', now, exact: true }))
  expect(html).toContain('2 minutes ago (25 Nov 2026, 23:32 UTC)')
  expect(html).toContain('title="25 Nov 2026, 23:32 UTC"')
})

test('an exact time is in the zone of the reader, and in UTC where a pointer asks for it', () => {
  const time = h(Time, {
    at: '2026-11-25T23:32:10.000Z',
    now: new Date('2026-11-25T23:34:10.000Z'),
    exact: true,
  })
  const sentence = h(Message, { text: 'nobody can give it before 2026-11-25T23:32:10Z' })
  const html = renderToString(h(ReadersZone.Provider, { value: 'Europe/Berlin' }, time, sentence))
  expect(plain(html)).toBe(
    '2 minutes ago (26 Nov 2026, 00:32 Europe/Berlin)Nobody can give it before 26 Nov 2026, 00:32 Europe/Berlin.',
  )
  expect(html.match(/datetime="2026-11-25T23:32:10/g)).toHaveLength(2)
  expect(html.match(/title="26 Nov 2026, 00:32 Europe\/Berlin · 25 Nov 2026, 23:32 UTC"/g)).toHaveLength(2)
})

test.each([
  ['clerk-z3bnvzct@service-accounts.invalid', 'clerk'],
  ['night-clerk-z3bnvzct@service-accounts.invalid', 'night-clerk'],
  ['ann-z3bnvzct@acme.example', 'ann-z3bnvzct@acme.example'],
])('the address %s is shown as %s', (email, shown) => {
  expect(whoOf(email)).toBe(shown)
})

test('a sentence begins with a capital letter, unless it begins with an address', () => {
  expect(capital('an owner decides')).toBe('An owner decides')
  expect(capital('member@countersign.test answers')).toBe('member@countersign.test answers')
})

describe('a call that an earlier run has made', () => {
  const asker = { id: 'usr_a', email: 'ann@acme.example' }
  const approval = {
    id: 'apr_a',
    kind: 'repeat',
    status: 'pending',
    organization_id: 'org_a',
    run_id: 'run_B',
    step_id: 'note',
    item_index: 2,
    tool: 'memory_set',
    workflow_name: 'notes',
    summary: null,
    session_id: null,
    rule_name: null,
    rule_id: null,
    requested_by: asker.id,
    requester_email: asker.email,
    authors: [{ user_id: asker.id, email: asker.email }],
    approvals_needed: 1,
    approvers: [{ person: asker.email, count: 1, also: [{ role: 'admin', at: '2026-11-25T23:34:06.000Z' }] }],
    votes: [],
    labels: [],
    risk: { level: 'low', reasons: [] },
    params: {},
    ask: null,
    revision: null,
    may_edit: [],
    side_effect: null,
    destination: null,
    reversible: null,
    held_again: null,
    superseded_by: null,
    created_at: '2026-11-25T23:34:06.000Z',
    expires_at: null,
    detail: {
      explanation:
        'An earlier run has made this call already: item 2 of step `note` of run `run_A`. It is made again only if a person says so.',
      vote_refused: null,
      votes_missing: 1,
      seats: [],
      held_by: [],
      label_sources: [],
    },
  }
  const visit = {
    now: new Date('2026-11-25T23:34:10.000Z'),
    token: 't',
    person: {
      user: asker,
      organization: null,
      organizations: [{ id: 'org_a', role: 'member', groups: [], deputy_for: [] }],
    },
  } as unknown as PersonsVisit

  test('can be chosen by whoever made the run again, and by an admin', () => {
    const decides = (by: PersonsVisit, kind = 'repeat') =>
      whoDecides({ visit: by, allowsOwn: false }, { ...approval, kind } as never)
    expect(decides(visit)).toBeNull()
    expect(decides(visit, 'step')).toMatch(/you asked for it/)
    const [own] = visit.person.organizations
    const as = (role: string) =>
      ({
        ...visit,
        person: { user: { id: 'b', email: 'b@b.test' }, organizations: [{ ...own, role }] },
      }) as never
    expect(decides(as('admin'))).toBeNull()
    expect(decides(as('member'))).toBe('ann@acme.example decides')
  })

  test('says what the buttons mean, and which call it was', () => {
    const props = {
      approval,
      visit,
      rule: null,
      run: null,
      call: null,
      refused: null,
      comment: '',
      isCut: false,
    }
    const html = renderToString(h(Approval, props as never))
    const text = plain(html)
    expect(html).toContain('<a href="/console/runs/run_A">')
    for (const words of [
      'item 3 of step note of run run_A',
      'Already done once. Do it again?',
      'Stop the run: this run ends as rejected, unless the step has on_error: continue.',
      'an admin or owner may decide it too',
    ])
      expect(text).toContain(words)
    expect(text).not.toMatch(/was asked too|Request changes/)
  })
})

describe('a refused form', () => {
  const labels = { name: 'Name of it', until: 'Until', members: 'Members' }
  const refused = (message: string, details: readonly FieldProblem[], aliases = {}): string => {
    const problem = { status: 422, code: 'validation_error', message, details }
    return renderToString(h(Refused, { filled: labelled({ form: null, problem }, labels, aliases) }))
  }

  test('says for each field what to change, by its label', () => {
    const details = [
      { path: 'name', message: 'must not be empty' },
      { path: 'members.3', message: '`eve@example.com` is no member' },
      { path: 'until', message: 'must be after `name`' },
      { path: 'given_name', message: 'is missing' },
    ]
    const html = refused('the body is not valid: `name` must not be empty (and 3 more)', details, {
      given_name: 'odd',
    })
    expect(html).toContain('<a href="#name">Name of it</a>')
    const text = plain(html)
    expect(text).toContain('Nothing was saved. Change this:Name of it: Must not be empty.')
    expect(text).toContain('Members: eve@example.com is no member.')
    expect(text).toContain('Until: Must be after “Name of it”.')
    expect(text).toContain('Odd: Is missing.')
    expect(text).not.toMatch(/body|is not valid|given_name/)
  })

  test('says all that is wrong below a field, and takes no name there for a label', () => {
    const details = [
      { path: 'members.name', message: 'input `name` is required' },
      { path: 'members.until', message: 'there is no input `until`' },
    ]
    expect(plain(refused('the inputs are wrong: input `name` is required (and 1 more)', details))).toContain(
      'Members: Input name is required. There is no input until.',
    )
  })

  test('keeps a message about no field', () => {
    expect(plain(refused('the name is taken', []))).toBe('The name is taken.')
    const alone = refused('the body is not valid: must have a condition', [
      { path: '', message: 'must have a condition' },
    ])
    expect(plain(alone)).toBe('Must have a condition.')
  })
})

describe('the difference of two texts', () => {
  const [before, after] = ['{\n  "a":  "x  y"\n}', '{\n  "a":  "x  z"\n}']
  const html = (kind: 'json' | 'text', then = after) =>
    plain(
      renderToString(
        h(Diff, {
          diff: { before, after: then, skipped: 0 },
          kind,
          sides: { before: 'old', after: 'new', nothing: '' },
        }),
      ),
    )

  test('marks blanks that a reader could overlook, but not those before a line of JSON', () => {
    expect(html('text').match(/2 blanks/g)).toHaveLength(6)
    expect(html('json').match(/2 blanks/g)).toHaveLength(4)
  })

  test('says that nothing changes', () => {
    expect(html('json', before)).toContain('It stays the same:')
  })
})

const shown = (values: JsonObject): string => renderToString(h(Values, { values }))
const numbered = (count: number, text: string): JsonObject =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`name-${at}-end`, `${text}${at}-end`]))

describe('values that fit on a page', () => {
  test('are shown whole: many short ones, and long names', () => {
    const name = `long-name-${'n'.repeat(2_000)}-name-end`
    const values = { ...numbered(700, 'x'.repeat(1_900)), [name]: 'y' }
    const html = shown(values)
    for (let at = 0; at < 700; at += 1) expect(html).toContain(`x${at}-end`)
    expect(html).toContain('-name-end')
    expect(html).not.toContain('not on this page')
  })

  test('show a long name whole, folded', () => {
    const html = shown({ [`a-${'n'.repeat(2_000)}-the-end`]: 'y' })
    expect(html).toContain('-the-end')
    expect(html).toContain('Show all 2,010 characters')
  })

  test('are listed one by one only up to a limit, and then as JSON', () => {
    for (const values of [
      numbered(5_000, 'a'),
      { list: Array.from({ length: 5_000 }, (_, at) => `a${at}-end`) },
    ]) {
      const html = shown(values)
      expect(html.match(/<(?:dd|li)>/g)?.length).toBeLessThan(400)
      expect(html).toContain('a4999-end')
      expect(html).toMatch(/4,70[01] more, as JSON:/)
    }
  })
})

test('values that do not fit are cut, with a mark and with their short texts', () => {
  const html = shown({ long: 'x'.repeat(mostShown + 1_234), command: 'git push --force' })
  expect(html).toContain('1,234 more characters are not on this page.')
  expect(html).toContain('git push --force')
  expect(shown(numbered(1_000, 'x'.repeat(1_900)))).toContain('more characters are not on this page.')
})

describe('a page on a phone', () => {
  const at = (base: string) =>
    renderToString(h(OnPhone, { base, path: '/console/approvals/apr_1', title: 'On a phone' }))

  test.each([
    ...['http://127.0.0.1:8080', 'http://localhost:8080', 'http://[::1]:8080', 'http://0.0.0.0:8080'],
    'http://a.localhost',
  ])('%s is reached by no phone, so the page says what to set', (base) => {
    const html = at(base)
    expect(plain(html)).toMatch(/A phone cannot open .*only the machine.*HOST=0.0.0.0.*PUBLIC_URL/)
    expect(html).not.toContain('<svg')
  })

  test.each([
    ['http://192.168.1.20:8080', true],
    ['http://10.1.2.3', true],
    ['http://172.20.0.1', true],
    ['http://[fd00::1]:8080', true],
    ['http://desk.local:8080', true],
    ['http://desk:8080', true],
    ['https://countersign.example.com', false],
    ['https://8.8.8.8', false],
    ['https://172.40.0.1', false],
  ])('%s is in the QR code; only in the same network: %s', (base, isNear) => {
    const html = at(base)
    expect(html).toContain(`aria-label="QR code with the address ${base}/console/approvals/apr_1"`)
    expect(plain(html).includes('in the same network')).toBe(isNear)
  })
})

test('a message that names a route leads to the page instead', () => {
  const html = renderToString(
    h(Message, { text: 'connect it with `POST /tools/slack_post_message/connect`, not `POST /other`' }),
  )
  expect(plain(html)).toContain('Connect it with the page Connections')
  expect(html).toContain('<a href="/console/connections">')
  expect(html).not.toContain('/tools/')
  expect(plain(html)).toContain('POST /other')
})
