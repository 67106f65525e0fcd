import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { compilePolicy, decide, type Call } from '../../src/policy/decide.ts'
import { isWithinGlob, matchesGlob, stepsWithin } from '../../src/policy/glob.ts'
import { implies, type Matching } from '../../src/policy/implication.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import { Steps } from '../../src/policy/steps.ts'
import { withWiderRules } from './wider-rules.ts'

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
    [
      'more required labels',
      { labels: { all_of: ['a', 'b'] } },
      { labels: { all_of: ['b'], any_of: ['a'] } },
      true,
    ],
    [
      'an excluded label',
      { labels: { any_of: ['a', 'b'], none_of: ['b'] } },
      { labels: { all_of: ['a'] } },
      true,
    ],
    ['more excluded labels', { labels: { none_of: ['a', 'b'] } }, { labels: { none_of: ['a'] } }, true],
    ['fewer excluded labels', { labels: { none_of: ['a'] } }, { labels: { none_of: ['a', 'b'] } }, false],
    ['a value of a list', param('equals', 'x'), param('in', ['x', 'y']), true],
    ['a list for a value', param('in', ['x', 'y']), param('equals', 'x'), false],
    ['a list of one', param('in', ['x']), param('equals', 'x'), true],
    ['more exceptions', param('not_in', ['x', 'y']), param('not_in', ['x']), true],
    ['fewer exceptions', param('not_in', ['x']), param('not_in', ['x', 'y']), false],
    ['a domain below', param('domain_in', ['mail.acme.com']), param('domain_in', ['ACME.com']), true],
    ['a domain above', param('domain_in', ['acme.com']), param('domain_in', ['mail.acme.com']), false],
    [
      'more allowed domains',
      param('domain_not_in', ['a.com', 'b.com']),
      param('domain_not_in', ['a.com']),
      true,
    ],
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
