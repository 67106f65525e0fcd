import fc from 'fast-check'
import { describe, expect, test, jest } from '@jest/globals'
import { agentEffects } from '../../src/governance/rules/analysis.ts'
import { Budget } from '../../src/policy/budget.ts'
import { decide, type Call, type Decided } from '../../src/policy/decide.ts'
import { compilePolicy } from '../support/compile.ts'
import { callOf, type ExampleCall } from '../../src/policy/example-calls.ts'
import { isWithinGlob, matchesGlob, stepsWithin } from '../../src/policy/glob.ts'
import { implies, type Matching } from '../../src/policy/implication.ts'
import { analyzeRules, type Finding } from '../../src/policy/rule-analysis.ts'
import { findChanges, termsOf, type Change } from '../../src/policy/rule-diff.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import { ruleInput } from '../../src/governance/rules/rule-kinds.ts'
import { facts } from '../../src/tools/index.ts'
import { Steps } from '../../src/policy/types.ts'
import { withWiderRules } from './wider-rules.ts'

const tools = { facts, effectsOf: agentEffects({ external_tools: {} }) }
const analyzed = (rules: readonly StoredRule[]): Finding[] =>
  [...analyzeRules(rules, new Steps(Infinity), tools)].filter((each) => each !== null)

/** Returns rules. The key of each rule is its name and its id. */
const saved = (rules: Readonly<Record<string, object>>): StoredRule[] =>
  Object.entries(rules).map(([name, body]) => ({ ...ruleInput.parse({ name, ...body }), id: name }))
const found = (rules: Readonly<Record<string, object>>) =>
  analyzed(saved(rules)).map(({ kind, rule, coveredBy }) => [kind, rule.id, coveredBy?.id ?? null])

const deny = { verdict: 'deny' }
const hold = { verdict: 'require_approval' }
const allow = { verdict: 'allow' }
const mail = { tools: ['mail_send'] }
const outside = (...domains: string[]) => ({
  params: [{ param: 'to', operator: 'domain_not_in', value: domains }],
})

describe('findings', () => {
  test.each<[string, Record<string, object>, unknown[]]>([
    ['no rule', {}, []],
    ['rules for different calls', { a: { ...deny, ...mail }, b: { ...deny, tools: ['file_read'] } }, []],
    ['a later rule for fewer calls', { all: { ...deny, tools: ['mail_*'] }, one: { ...deny, ...mail } }, [['never_decides', 'one', 'all']]],
    ['an earlier rule for fewer calls', { one: { ...deny, ...mail }, all: { ...deny, tools: ['mail_*'] } }, []],
    ['a stricter rule, also if it is later', { one: { ...hold, ...mail }, all: { ...deny, tools: ['mail_*'] } }, [['never_decides', 'one', 'all']]],
    ['a less strict rule', { all: { ...hold, tools: ['mail_*'] }, one: { ...deny, ...mail } }, []],
    ['more conditions', { all: { ...deny, ...mail }, one: { ...hold, ...mail, ...outside('acme.com') } }, [['never_decides', 'one', 'all']]],
    ['the same rule twice', { a: { ...deny, ...mail, ...outside('acme.com') }, b: { ...deny, ...mail, ...outside('ACME.com', 'acme.com') } }, [['never_decides', 'b', 'a']]],
    ['the same conditions twice', { a: { ...deny, ...mail, ...outside('a.com', 'b.com') }, b: { ...deny, ...mail, ...outside('b.com', 'a.com') } }, [['duplicate', 'b', 'a']]],
    ['the same conditions, and another verdict', { a: { ...allow, ...mail }, b: { ...deny, ...mail } }, [['contradicts', 'a', 'b']]],
    ['a hold and a denial of the same calls', { a: { ...deny, ...mail }, b: { ...hold, ...mail } }, [['contradicts', 'b', 'a']]],
    ['an inactive rule', { a: { ...deny, ...mail, status: 'inactive' }, b: { ...deny, ...mail } }, []],
    ['a shadow rule that covers another one', { a: { ...deny, ...mail, status: 'shadow' }, b: { ...hold, ...mail } }, []],
    ['a shadow rule that is covered', { a: { ...deny, ...mail }, b: { ...hold, ...mail, status: 'shadow' } }, [['contradicts', 'b', 'a']]],
    ['stricter terms of an approval', { a: { ...hold, ...mail }, b: { ...hold, ...mail, approver: 'owner' } }, []],
    ['another group', { a: { ...hold, ...mail, approver: { group: 'finance' } }, b: { ...hold, ...mail, approver: { group: 'legal' } } }, []], // prettier-ignore
    ['more votes', { a: { ...hold, ...mail }, b: { ...hold, ...mail, approvals_needed: 2 } }, []],
    ['a shorter time', { a: { ...hold, ...mail, expires_after_seconds: 60 }, b: { ...hold, ...mail, expires_after_seconds: 30 } }, []],
    ['a time, where the other rule has none', { a: { ...hold, ...mail }, b: { ...hold, ...mail, expires_after_seconds: 0 } }, []],
    ['weaker terms', { a: { ...hold, ...mail, approver: 'owner', approvals_needed: 2, expires_after_seconds: 30 }, b: { ...hold, ...mail, expires_after_seconds: 60 } }, [['duplicate', 'b', 'a']]],
  ])('%s', (_, rules, findings) => expect(found(rules)).toEqual(findings)) // prettier-ignore

  test('a saved rule that contradicts itself matches nothing', () => {
    const params = [{ param: 'to', operator: 'exists', value: false }, { param: 'to', operator: 'contains', value: 'x' }] // prettier-ignore
    const old = { id: 'old', name: 'old', verdict: 'deny', status: 'active', tools: ['mail_send'], params } as StoredRule // prettier-ignore
    const message = expect.stringMatching(/^Rule `old` matches no call: /)
    expect(analyzed([old])).toMatchObject([{ kind: 'matches_nothing', coveredBy: null, message }])
  })

  test('a damaged rule is left out, since it matches more calls than it says', () => {
    const damaged = { id: 'a', name: 'a', verdict: 'deny', status: 'active', params: 'none' } as never
    expect(analyzed([damaged, ...saved({ b: { ...hold, ...mail } })])).toEqual([])
  })

  test('the message names both rules, and the example is a call that both match', () => {
    const [finding] = analyzed(saved({ all: { ...deny, tools: ['mail_*'] }, one: { ...deny, ...mail, ...outside('acme.com') } })) // prettier-ignore
    expect(finding?.message).toBe(
      'Rule `one` never decides a call: rule `all` matches every call that it matches, and is at least as strict.',
    )
    expect(finding?.example).toEqual({
      source: 'workflows',
      tool: 'mail_send',
      side_effect: 'egress',
      params: { to: 'someone@outside.example' },
      labels: [],
    })
  })
})

test('a rule with a finding never decides in `decide`, and both rules match the example', () => {
  const seen = { never_decides: 0, duplicate: 0, contradicts: 0, matches_nothing: 0, calls: 0, examples: 0 }
  fc.assert(
    fc.property(withWiderRules, ({ rules, calls }) => {
      const findings = analyzed(rules)
      const without = new Set(findings.map(({ rule }) => rule.id))
      const policy = compilePolicy({ rules, labelRules: [], approvalsEnabled: true })
      for (const call of calls) {
        const { ruleId, matchedRules, seats, expiresAfterSeconds } = decide(policy, call)
        expect([...without]).not.toContain(ruleId)
        seen.calls += matchedRules.filter(({ id }) => without.has(id)).length
        // The rule does not change the terms of an approval either.
        const others = compilePolicy({ rules: rules.filter(({ id }) => !without.has(id)), labelRules: [], approvalsEnabled: true }) // prettier-ignore
        expect(decide(others, call)).toMatchObject({ ruleId, seats, expiresAfterSeconds })
      }
      for (const { kind, rule, coveredBy, example } of findings) {
        seen[kind] += 1
        if (example === null) continue
        seen.examples += 1
        const { matchedRules } = decide(policy, callOf(example) as never)
        expect(matchedRules.map(({ id }) => id)).toEqual(expect.arrayContaining([rule.id, coveredBy?.id]))
      }
    }),
    { numRuns: 250 },
  )
  // The schema of rules refuses rules that match nothing.
  const { matches_nothing: none, ...others } = seen
  expect(none).toBe(0)
  for (const count of Object.values(others)) expect(count).toBeGreaterThan(20)
})

describe('the analysis pauses often', () => {
  test('when it compares many long globs', () => {
    const glob = (rule: number, index: number) => `mcp__s__${'a'.repeat(140)}${rule}x${index}`.slice(0, 155)
    const names = Array(99).fill('')
    const rules = [0, 1, 2, 3].map((rule) => ({
      ...deny,
      tools: [...names.map((_, index) => `${glob(rule, index)}*?`), `mcp__s__${'a'.repeat(20)}*?`],
    }))
    const steps = new Steps(10_000_000)
    let [sincePause, most, all] = [0, 0, 0]
    const take = steps.take.bind(steps)
    steps.take = (count) => {
      sincePause += count ?? 1
      all += count ?? 1
      return take(count)
    }
    for (const _ of analyzeRules(saved(Object.fromEntries(rules.entries())), steps, tools)) {
      most = Math.max(most, sincePause)
      sincePause = 0
    }
    // Each comparison of two long globs takes a step for each pair of characters.
    expect(all).toBeGreaterThan(1_000_000)
    expect(most).toBeLessThan(50_000)
  })

  test('when it looks for an example with many long texts', () => {
    const rules = saved({ all: { ...deny, match_all: true }, one: { ...hold, params: longTexts(40) } })
    const { most, all } = comparisonsBetween(analyzeRules(rules, new Steps(Infinity), tools))
    expect(all).toBeGreaterThan(20_000)
    expect(all).toBeLessThan(200_000)
    expect(most).toBeLessThan(25_000)
  })
})

/** Returns what `implies` returns at the end of all pauses. */
function proven(narrow: Matching, wide: Matching, most = Infinity): boolean {
  const proof = implies(narrow, wide, new Steps(most))
  for (;;) {
    const { done, value } = proof.next()
    if (done === true) return value
  }
}

test('a rule that implies another one never matches a call that the other does not match', () => {
  const matches = (rule: StoredRule, call: Call): boolean =>
    decide(
      compilePolicy({ rules: [{ ...rule, status: 'active' }], labelRules: [], approvalsEnabled: true }),
      call,
    ).matchedRules.length === 1
  const seen = { proven: 0, matched: 0, 'different conditions': 0, 'an allow rule': 0 }
  fc.assert(
    fc.property(withWiderRules, ({ rules, calls }) => {
      for (const narrow of rules)
        for (const wide of rules) {
          if (narrow === wide || !proven(narrow, wide)) continue
          seen.proven += 1
          for (const call of calls) {
            if (!matches(narrow, call)) continue
            seen.matched += 1
            if (JSON.stringify(narrow.params) !== JSON.stringify(wide.params))
              seen['different conditions'] += 1
            if (narrow.verdict === 'allow') seen['an allow rule'] += 1
            expect([narrow, wide, call, matches(wide, call)]).toEqual([narrow, wide, call, true])
          }
        }
    }),
    { numRuns: 400 },
  )
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(50)
})

describe('what is proven', () => {
  const param = (operator: string, value: unknown, name = 'to') => ({
    params: [{ param: name, operator, value }],
  })
  const labels = (field: string, ...names: string[]) => ({ labels: { [field]: names } })
  const rows: [string, object, object, boolean][] = [
    ['fewer tools', { tools: ['mail_send', 'mcp__a__x*'] }, { tools: ['mail_*', 'mcp__a__*'] }, true],
    ['other tools', { tools: ['mail_*'] }, { tools: ['mail_send'] }, false],
    ['any tool', {}, { tools: ['*'] }, true],
    ['fewer side effects', { side_effects: ['read'] }, { side_effects: ['read', 'egress'] }, true],
    ['any side effect', {}, { side_effects: ['read', 'egress'] }, false],
    ['all side effects', {}, { side_effects: ['read', 'write', 'egress'] }, true],
    ['one source', { applies_to: ['agents'] }, {}, true],
    ['the other source', { applies_to: ['agents'] }, { applies_to: ['workflows'] }, false],
    ['only unclassed tools', { classed: false }, {}, true],
    ['classed tools too', {}, { classed: false }, false],
    ['unclassed tools in both', { classed: false, tools: ['mcp__a__*'] }, { classed: false }, true],
    ['fewer labels', { labels: { any_of: ['a'] } }, { labels: { any_of: ['a', 'b'] } }, true],
    ['more labels', { labels: { any_of: ['a', 'b'] } }, { labels: { any_of: ['a'] } }, false],
    ['more required labels', labels('all_of', 'a', 'b'), { labels: { all_of: ['b'], any_of: ['a'] } }, true],
    ['an excluded label', { labels: { any_of: ['a', 'b'], none_of: ['b'] } }, labels('all_of', 'a'), true],
    ['more excluded labels', { labels: { none_of: ['a', 'b'] } }, { labels: { none_of: ['a'] } }, true],
    ['fewer excluded labels', { labels: { none_of: ['a'] } }, { labels: { none_of: ['a', 'b'] } }, false],
    ['a value of a list', param('equals', 'x'), param('in', ['x', 'y']), true],
    ['a list for a value', param('in', ['x', 'y']), param('equals', 'x'), false],
    ['a list of one', param('in', ['x']), param('equals', 'x'), true],
    ['more exceptions', param('not_in', ['x', 'y']), param('not_in', ['x']), true],
    ['fewer exceptions', param('not_in', ['x']), param('not_in', ['x', 'y']), false],
    ['a domain below', param('domain_in', ['mail.acme.com']), param('domain_in', ['ACME.com']), true],
    ['a domain above', param('domain_in', ['acme.com']), param('domain_in', ['mail.acme.com']), false],
    ['more allowed domains', outside('a.com', 'b.com'), outside('a.com'), true],
    ['an exception below', param('domain_not_in', ['a.com']), param('domain_not_in', ['x.a.com']), false],
    ['another parameter', param('equals', 'x', 'cc'), param('equals', 'x'), false],
    ['any parameter', param('equals', 'x'), param('equals', 'x', '*'), true],
    ['any parameter with an exception', param('not_in', ['x']), param('not_in', ['x'], '*'), false],
    ['a number and a text', param('equals', 1), param('equals', '1'), false],
    ['there and not there', param('exists', true), param('exists', false), false],
    ['one source label', param('from_label', ['a']), param('from_label', ['a', 'b']), true],
  ]
  test.each(rows)('%s', (_, narrow, wide, isProven) => {
    const [one, two] = [narrow, wide].map((rule) => ({ verdict: 'deny', ...rule })) as [Matching, Matching]
    expect(proven(one, two)).toBe(isProven)
    expect(proven({ ...one, verdict: 'allow' }, two)).toBe(isProven)
    expect(proven(one, { ...two, verdict: 'allow' })).toBe(false)
  })

  test('an `allow` rule for a part of a domain is not covered by one for the domain', () => {
    const [one, two] = [param('domain_in', ['mail.acme.com']), param('domain_in', ['acme.com'])]
    expect(proven({ verdict: 'allow', ...one } as Matching, { verdict: 'allow', ...two } as Matching)).toBe(false) // prettier-ignore
  })

  test('without steps, nothing is proven', () => {
    const rule = { verdict: 'deny', ...param('equals', 'x') } as Matching
    expect(proven(rule, rule, 0)).toBe(false)
  })
})

test('a glob within another one matches only names that the other matches', () => {
  const glob = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?'), maxLength: 6 })
  const name = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 7 })
  let count = 0
  fc.assert(
    fc.property(glob, glob, fc.array(name, { minLength: 20, maxLength: 20 }), (inner, outer, names) => {
      if (!isWithinGlob(inner, outer)) return
      count += 1
      for (const each of names) if (matchesGlob(inner, each)) expect(matchesGlob(outer, each)).toBe(true)
    }),
    { numRuns: 10_000 },
  )
  expect(count).toBeGreaterThan(200)
})

/** Compares globs slowly, character by character. `table[j][i]` says whether i characters fit j characters. */
function isWithinSlowly(glob: string, other: string): boolean {
  let fits = Array.from({ length: glob.length + 1 }, (_, i) => i === 0)
  for (const char of other.split('')) {
    const before = fits
    fits = before.map((_, i) => {
      if (char === '*') return before.slice(0, i + 1).includes(true)
      const last = glob[i - 1]
      return i > 0 && before[i - 1] === true && (char === last || (char === '?' && last !== '*'))
    })
  }
  return fits[glob.length] === true
}

test('globs are compared as a slow table says, and a pair of long globs takes a step for each pair of characters', () => {
  const glob = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?'), maxLength: 8 })
  let count = 0
  fc.assert(
    fc.property(glob, glob, (inner, outer) => {
      const isWithin = isWithinSlowly(inner, outer)
      if (isWithin) count += 1
      expect([inner, outer, isWithinGlob(inner, outer)]).toEqual([inner, outer, isWithin])
    }),
    { numRuns: 5_000 },
  )
  expect(count).toBeGreaterThan(100)
  expect(stepsWithin(`${'a'.repeat(199)}*`, `${'a'.repeat(197)}*?`)).toBe(1 + 200 * 199)
  // These pairs need no table: the first glob is a plain name, or the beginnings differ.
  expect([stepsWithin('mail_send', 'mail_*'), stepsWithin('mcp__a__*', 'mcp__b__*?')]).toEqual([1, 1])
})

describe('the difference of two sets of rules', () => {
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
    facts,
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
      const by = (approver: 'admin' | 'owner', count: number, time: number | null) => ({
        approver,
        approvals_needed: count,
        approvers: [{ role: approver, count }],
        expires_after_seconds: time,
        remind_after_seconds: null,
        approver_may_edit: [],
      })
      const usual = by('admin', 1, null)
      expect(terms(strict, hold)).toEqual([[by('owner', 3, 60), usual]])
      expect(terms(hold, { ...hold, approver: 'owner' })).toEqual([[usual, by('owner', 1, null)]])
      expect(terms(hold, { ...hold, approvals_needed: 3 })).toEqual([[usual, by('admin', 3, null)]])
      expect(terms(hold, { ...hold, expires_after_seconds: 60 })).toEqual([[usual, by('admin', 1, 60)]])
      const both = [
        { group: 'finance', count: 1 },
        { group: 'legal', count: 1 },
      ]
      const needs = {
        approver: null,
        approvals_needed: 2,
        expires_after_seconds: null,
        remind_after_seconds: null,
        approver_may_edit: [],
      }
      expect(terms(hold, { ...hold, approvers: both })).toEqual([[usual, { ...needs, approvers: both }]])
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
      const long = { verdict: 'require_approval', params: [{ param: 'p0', operator: 'contains', value }] }
      const expensive = Array.from({ length: 6 }, () => long)
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
})

/** Conditions that are expensive to compare. Their values make many calls, and no call fits the last condition. */
function longTexts(conditions: number): object[] {
  const short = Array.from({ length: 16 }, (_, index) => `${'a'.repeat(index + 5)}b`)
  return [
    ...Array.from({ length: conditions }, (_, at) => ({
      param: 'p',
      operator: 'contains',
      value: [...[0, 1, 2].map((index) => `${'a'.repeat(1_900)}x${at}.${index}`), ...short, 'x'],
    })),
    { param: 'p', operator: 'contains', value: 'Z' },
  ]
}

/** Runs the first steps of a search. Returns the comparisons of its decisions: all, and the most between two pauses. */
function comparisonsBetween(search: Iterable<unknown>, mostSteps = Infinity): { all: number; most: number } {
  let [sincePause, most, all, steps] = [0, 0, 0, 0]
  const original = Budget.prototype.spend
  const spy = jest.spyOn(Budget.prototype, 'spend').mockImplementation(function (this: Budget, count) {
    sincePause += count
    all += count
    original.call(this, count)
  })
  try {
    for (const _ of search) {
      most = Math.max(most, sincePause)
      sincePause = 0
      steps += 1
      if (steps === mostSteps) break
    }
  } finally {
    spy.mockRestore()
  }
  return { all, most: Math.max(most, sincePause) }
}
