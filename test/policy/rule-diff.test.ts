import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { compilePolicy, decide, type Decided } from '../../src/policy/decide.ts'
import { agentEffects } from '../../src/governance/rules/agent-effects.ts'
import { callOf, type ExampleCall } from '../../src/policy/example-calls.ts'
import { findChanges, termsOf, type Change } from '../../src/policy/rule-diff.ts'
import { ruleInput, type StoredRule } from '../../src/policy/rule.ts'
import { comparisonsBetween, longTexts } from './long-rules.ts'
import { withWiderRules } from './wider-rules.ts'

type Tools = Parameters<typeof agentEffects>[0]['external_tools']

function changesBetween(
  from: readonly StoredRule[],
  to: readonly StoredRule[],
  { most = 5_000, tools = {} }: { most?: number; tools?: Tools } = {},
): Change[] {
  const changes = new Map<string, Change>()
  let tried = 0
  for (const step of findChanges({ from, to, ...settings(tools) }, changes)) {
    if (step === 'tried') tried += 1
    if (tried > most) break
  }
  return [...changes.values()]
}
const settings = (tools: Tools = {}) => ({
  approvalsEnabled: true,
  effectsOf: agentEffects({ external_tools: tools }),
})
const saved = (set: string, bodies: readonly object[]): StoredRule[] =>
  bodies.map((body, index) => ({
    ...ruleInput.parse({ name: `${set} ${index}`, ...body }),
    id: `${set}_${index}`,
  }))
const found = (from: readonly object[], to: readonly object[]) =>
  changesBetween(saved('old', from), saved('new', to)).map(
    ({ from: before, to: after }) => `${before.verdict}->${after.verdict}`,
  )

const mail = { verdict: 'deny', tools: ['mail_send'] }
const param = (operator: string, value: unknown, name = 'to') => ({
  ...mail,
  params: [{ param: name, operator, value }],
})
const many = (extra: readonly string[] = []) => [...Array.from({ length: 300 }, (_, index) => `d${index}.example`), ...extra] // prettier-ignore

describe('changes are found', () => {
  const rows: [string, object[], object[], string[]][] = [
    ['no rules', [], [], []],
    ['a new rule', [], [mail], ['allow->deny']],
    ['a removed rule', [mail], [], ['deny->allow']],
    ['another verdict', [mail], [{ ...mail, verdict: 'require_approval' }], ['deny->require_approval']],
    ['another name', [mail], [{ ...mail, name: 'other' }], []],
    ['a rule that becomes a shadow', [mail], [{ ...mail, status: 'shadow' }], ['deny->allow']],
    ['a rule that allows', [], [{ ...mail, verdict: 'allow' }], []],
    ['one more tool', [mail], [{ ...mail, tools: ['mail_send', 'Bash'] }], ['allow->deny']],
    ['a protocol tool', [{ ...mail, tools: ['mcp__a__x*'] }], [{ ...mail, tools: ['mcp__a__*'] }], ['allow->deny']],
    ['a side effect', [{ ...mail, tools: undefined, side_effects: ['egress'] }], [{ ...mail, tools: undefined, side_effects: ['egress', 'write'] }], ['allow->deny']],
    ['a source', [{ ...mail, tools: ['*'], applies_to: ['agents'] }], [{ ...mail, tools: ['*'] }], ['allow->deny']],
    ['a label', [{ ...mail, labels: { any_of: ['a'] } }], [{ ...mail, labels: { any_of: ['a', 'b'] } }], ['allow->deny']],
    ['an excluded label', [{ ...mail, labels: { none_of: ['a'] } }], [mail], ['allow->deny']],
    ['one of 300 domains', [param('domain_not_in', many())], [param('domain_not_in', many(['last.example']))], ['deny->allow']],
    ['one of 300 values', [param('in', many())], [param('in', many(['last.example']))], ['allow->deny']],
    ['a longer beginning', [param('startswith', 'a')], [param('startswith', 'ab')], ['deny->allow']],
    ['equality for a part', [param('equals', 'ab', 'subject')], [param('contains', 'ab', 'subject')], ['allow->deny']],
    ['a parameter that must be there', [mail], [param('exists', true, 'cc')], ['deny->allow']],
    ['any parameter', [param('equals', 'x', 'subject')], [param('equals', 'x', '*')], ['allow->deny']],
    ['a path', [{ verdict: 'deny', params: [{ param: 'message.to', operator: 'equals', value: 'x' }] }], [], ['deny->allow']],
    ['a source of a value', [param('from_label', ['a'])], [param('from_label', ['a', 'b'])], ['allow->deny']],
    ['two rules at once', [mail], [{ ...mail, tools: ['file_read'] }], ['deny->allow', 'allow->deny']],
    ['a rule behind a stricter one', [mail], [mail, { ...param('exists', true), verdict: 'require_approval' }], []],
    ['two conditions that only fit together', [], [{ ...mail, params: [{ param: 'to', operator: 'contains', value: 'a@acme.com' }, { param: 'to', operator: 'domain_not_in', value: ['acme.com'] }] }], ['allow->deny']],
    ['a file of an agent', [], [{ verdict: 'deny', tools: ['Read'], params: [{ param: 'file_path', operator: 'startswith', value: '/etc' }] }], ['allow->deny']],
  ] // prettier-ignore
  test.each(rows)('%s', (_, from, to, expected) => expect(found(from, to).sort()).toEqual(expected.sort()))
})

test('the example is small, and names nothing that does not matter', () => {
  const from = saved('old', [{ ...mail, labels: { any_of: ['a', 'b'] } }])
  const to = saved('new', [{ ...mail, labels: { all_of: ['a', 'b'] } }, param('exists', true, 'cc')])
  expect(changesBetween(from, to).map(({ example }) => [example.labels, example.params])).toEqual(
    expect.arrayContaining([
      [['a'], {}],
      [[], { cc: 'something else' }],
    ]),
  )
})

test('each example gets both verdicts in `decide`, and equal sets have no change', () => {
  let count = 0
  fc.assert(
    fc.property(withWiderRules, ({ rules }) => {
      const half = Math.ceil(rules.length / 2)
      const [from, to] = [rules.slice(0, half), rules.slice(half)]
      expect(changesBetween(from, [...from].reverse(), { most: 200 })).toEqual([])
      for (const { from: before, to: after, example } of changesBetween(from, to, { most: 400 })) {
        count += 1
        const call = callOf(example)
        if (call === null) throw new Error('the call would be refused before any rule')
        const decided = [from, to].map((set) => decide(compilePolicy({ rules: set, labelRules: [], approvalsEnabled: true }), call)) // prettier-ignore
        const shown = (sides: readonly Decided[]) =>
          sides.map((each) => [each.verdict, each.ruleId, termsOf(each)])
        expect(shown(decided)).toEqual(shown([before, after]))
        const [one, two] = [before, after].map((each) => [each.verdict, termsOf(each)])
        expect(one).not.toEqual(two)
      }
    }),
    { numRuns: 60 },
  )
  expect(count).toBeGreaterThan(50)
})

describe('terms of an approval are compared', () => {
  const hold = { ...mail, verdict: 'require_approval' }
  const strict = { ...hold, approver: 'owner', approvals_needed: 3, expires_after_seconds: 60 }
  const terms = (from: object, to: object) =>
    changesBetween(saved('old', [from]), saved('new', [to])).map((change) => [
      termsOf(change.from),
      termsOf(change.to),
    ])

  test('if both sides ask for an approval', () => {
    const usual = { approver: 'admin', approvals_needed: 1, expires_after_seconds: null }
    expect(terms(strict, hold)).toEqual([
      [{ approver: 'owner', approvals_needed: 3, expires_after_seconds: 60 }, usual],
    ])
    for (const field of ['approver', 'approvals_needed', 'expires_after_seconds'] as const)
      expect(terms(hold, { ...hold, [field]: strict[field] })).toEqual([
        [usual, { ...usual, [field]: strict[field] }],
      ])
    expect(terms(strict, strict)).toEqual([])
  })

  test('not if a denial decides on both sides', () => {
    const set = (body: object) => [body, { ...mail, tools: ['mail_*'] }]
    expect(found(set(strict), set(hold))).toEqual([])
  })
})

describe('an example is a call that can happen', () => {
  const agents = (tools: readonly string[] | undefined, effects: readonly string[], more: object = {}) =>
    saved('new', [
      { verdict: 'deny', applies_to: ['agents'], ...(tools && { tools }), side_effects: effects, ...more },
    ])
  const examples = (rules: readonly StoredRule[], tools?: Tools): ExampleCall[] =>
    changesBetween([], rules, tools === undefined ? {} : { tools }).map(({ example }) => example)

  test('`Read` sends data out only if a setting says so', () => {
    const sent = { source: 'agents', tool: 'Read', side_effect: 'egress', params: {}, labels: [] }
    expect(examples(agents(['Read'], ['egress']))).toEqual([])
    expect(examples(agents(['Read'], ['egress']), { Read: { side_effect: 'egress' } })).toEqual([sent])
    expect(examples(agents(['Read'], ['read']), { Read: { side_effect: 'egress' } })).toEqual([])
  })

  test('annotations can make the side effect of a protocol tool stricter, but not weaker', () => {
    const sideEffects = (tool: string, effect: string) =>
      examples(agents([tool], [effect])).map(({ side_effect }) => side_effect)
    expect(['read', 'write', 'egress'].flatMap((effect) => sideEffects('mcp__s__get', effect))).toEqual(['read', 'write', 'egress']) // prettier-ignore
    expect(['read', 'write', 'egress'].flatMap((effect) => sideEffects('mcp__s__send', effect))).toEqual(['egress']) // prettier-ignore
  })

  test('the command decides whether `Bash` sends data out', () => {
    expect(examples(agents(['Bash'], ['egress']))).toMatchObject([
      { side_effect: 'egress', params: { command: 'curl https://outside.example' } },
    ])
    const params = [{ param: 'command', operator: 'contains', value: 'git status' }]
    expect(examples(agents(['Bash'], ['write'], { params }))).toMatchObject([
      { side_effect: 'write', params: { command: 'git status' } },
    ])
    expect(examples(agents(['Bash'], ['read']))).toEqual([])
  })

  test('the name of its tool has at most 200 characters', () => {
    const [{ tool } = { tool: '' }] = examples(agents([`mcp__s__${'*?'.repeat(96)}`], ['write']))
    expect(tool).toBe(`mcp__s__${'q'.repeat(96)}`)
  })
})

describe('the search pauses often', () => {
  const search = (from: readonly object[], to: readonly object[]) =>
    comparisonsBetween(
      findChanges({ from: saved('old', from), to: saved('new', to), ...settings() }, new Map()),
      500,
    )

  test('when one rule compares many long texts', () => {
    const { all, most } = search([], [{ verdict: 'deny', params: longTexts(40) }])
    expect(all).toBeGreaterThan(20_000)
    expect(all).toBeLessThan(200_000)
    expect(most).toBeLessThan(25_000)
  })

  test('when it makes an example smaller', () => {
    const value = Array.from({ length: 999 }, (_, index) => `x${index}`)
    const expensive = Array.from({ length: 6 }, () => ({
      verdict: 'require_approval',
      params: [{ param: 'p0', operator: 'contains', value }],
    }))
    const params = Array.from({ length: 40 }, (_, at) => ({
      param: `p${at}`,
      operator: 'equals',
      value: 'y',
    }))
    const { all, most } = search(expensive, [...expensive, { verdict: 'deny', params }])
    // The example has 40 parameters. Each try without one of them needs 6,000 comparisons for each set.
    expect(all).toBeGreaterThan(40 * 6_000)
    expect(most).toBeLessThan(25_000)
  })
})

test('a call that needs too many comparisons is left out, and the search says so', () => {
  const params = Array.from({ length: 30 }, (_, at) => ({
    param: 'p',
    operator: 'contains',
    value: [...Array.from({ length: 999 }, (__, index) => `${at}.${index}`), 'x'],
  }))
  const changes = new Map<string, Change>()
  const steps = [
    ...findChanges({ from: [], to: saved('new', [{ verdict: 'deny', params }]), ...settings() }, changes),
  ]
  expect(steps).toContain('too large')
  expect(changes.size).toBe(0)
})
