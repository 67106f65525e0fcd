import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { compilePolicy, decide } from '../../src/policy/decide.ts'
import { callOf } from '../../src/policy/example-calls.ts'
import { agentEffects } from '../../src/governance/rules/agent-effects.ts'
import { analyzeRules, type Finding } from '../../src/policy/rule-analysis.ts'
import { ruleInput, type StoredRule } from '../../src/policy/rule.ts'
import { Steps } from '../../src/policy/steps.ts'
import { comparisonsBetween, longTexts } from './long-rules.ts'
import { withWiderRules } from './wider-rules.ts'

const effects = agentEffects({ external_tools: {} })
const analyzed = (rules: readonly StoredRule[]): Finding[] =>
  [...analyzeRules(rules, new Steps(Infinity), effects)].filter((each) => each !== null)

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
    ['more votes', { a: { ...hold, ...mail }, b: { ...hold, ...mail, approvals_needed: 2 } }, []],
    ['a shorter time', { a: { ...hold, ...mail, expires_after_seconds: 60 }, b: { ...hold, ...mail, expires_after_seconds: 30 } }, []],
    ['a time, where the other rule has none', { a: { ...hold, ...mail }, b: { ...hold, ...mail, expires_after_seconds: 0 } }, []],
    ['weaker terms', { a: { ...hold, ...mail, approver: 'owner', approvals_needed: 2, expires_after_seconds: 30 }, b: { ...hold, ...mail, expires_after_seconds: 60 } }, [['duplicate', 'b', 'a']]],
  ])('%s', (_, rules, findings) => expect(found(rules)).toEqual(findings)) // prettier-ignore

  test('a rule that contradicts itself, as older versions saved it, matches nothing', () => {
    const params = [{ param: 'to', operator: 'exists', value: false }, { param: 'to', operator: 'contains', value: 'x' }] // prettier-ignore
    const old = { id: 'old', name: 'old', verdict: 'deny', status: 'active', tools: ['mail_send'], params } as StoredRule // prettier-ignore
    expect(analyzed([old])).toMatchObject([
      {
        kind: 'matches_nothing',
        coveredBy: null,
        message: expect.stringMatching(/^Rule `old` matches no call: /),
      },
    ])
  })

  test('a damaged rule is left out, since it matches more calls than it says', () => {
    const damaged = {
      id: 'a',
      name: 'a',
      verdict: 'deny',
      status: 'active',
      params: 'none',
    } as unknown as StoredRule
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
        const { ruleId, matchedRules, approver, approvalsNeeded, expiresAfterSeconds } = decide(policy, call)
        expect([...without]).not.toContain(ruleId)
        seen.calls += matchedRules.filter(({ id }) => without.has(id)).length
        // The rule does not change the terms of an approval either.
        const others = compilePolicy({ rules: rules.filter(({ id }) => !without.has(id)), labelRules: [], approvalsEnabled: true }) // prettier-ignore
        expect(decide(others, call)).toMatchObject({ ruleId, approver, approvalsNeeded, expiresAfterSeconds })
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
    const rules = [0, 1, 2, 3].map((rule) => ({
      ...deny,
      tools: [
        ...Array.from({ length: 99 }, (_, index) => `${glob(rule, index)}*?`),
        `mcp__s__${'a'.repeat(20)}*?`,
      ],
    }))
    const steps = new Steps(10_000_000)
    let [sincePause, most, all] = [0, 0, 0]
    const take = steps.take.bind(steps)
    steps.take = (count) => {
      sincePause += count ?? 1
      all += count ?? 1
      return take(count)
    }
    for (const _ of analyzeRules(saved(Object.fromEntries(rules.entries())), steps, effects)) {
      most = Math.max(most, sincePause)
      sincePause = 0
    }
    // Each comparison of two long globs takes a step for each pair of characters.
    expect(all).toBeGreaterThan(1_000_000)
    expect(most).toBeLessThan(50_000)
  })

  test('when it looks for an example with many long texts', () => {
    const search = analyzeRules(
      saved({ all: { ...deny, match_all: true }, one: { ...hold, params: longTexts(40) } }),
      new Steps(Infinity),
      effects,
    )
    const { most, all } = comparisonsBetween(search)
    expect(all).toBeGreaterThan(20_000)
    expect(all).toBeLessThan(200_000)
    expect(most).toBeLessThan(25_000)
  })
})
