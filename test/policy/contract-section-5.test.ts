import { describe, expect, it } from '@jest/globals'
import { comparisonBudget } from '../../src/policy/budget.ts'
import { addedLabels, type Call, compilePolicy } from '../../src/policy/decide.ts'
import { labelRuleInput } from '../../src/policy/rule.ts'
import type { Json, JsonObject, Label } from '../../src/policy/types.ts'
import { ask, call, holds, issues, p, restrictive } from './contract-section-5.ts'

/*
 * Contract section 5, sentence by sentence, on rules as they are saved; its operators are walked in the file beside this
 * one, its routes and codes in test/api.
 */

describe('conditions', () => {
  it('“All given conditions must hold.”', () => {
    const rule = {
      verdict: 'deny',
      side_effects: ['egress'],
      tools: ['mail_*'],
      labels: { any_of: ['pii'], all_of: ['pii', 'internal'], none_of: ['untrusted'] },
      params: [
        { param: 'to', operator: 'equals', value: 'x' },
        { param: 'cc', operator: 'exists', value: false },
      ],
      applies_to: ['workflows'],
    }
    const all: Partial<Call> = { params: { to: 'x' }, labels: ['pii', 'internal'] }
    expect(ask([rule], all).verdict).toBe('deny')
    const lacking: Partial<Call>[] = [
      { sideEffect: 'write' },
      { tool: 'docs_read' },
      { labels: ['pii'] },
      { labels: ['internal'] },
      { labels: ['pii', 'internal', 'untrusted'] },
      { params: { to: 'y' } },
      { params: { to: 'x', cc: 'z' } },
      { source: 'agents' },
    ]
    for (const one of lacking) expect(ask([rule], { ...all, ...one }).verdict).toBe('allow')
  })

  it('“`param` is a dotted path; `*` means any parameter.”', () => {
    const is = (param: string, params: JsonObject) =>
      ask([{ verdict: 'deny', params: [{ param, operator: 'equals', value: 'x' }] }], { params }).verdict ===
      'deny'
    expect(is('a.b.c', { a: { b: { c: 'x' } } })).toBe(true)
    expect(is('a.b', { a: [{ b: 'y' }, { b: 'x' }] })).toBe(true)
    expect(is('*', { anything: { at: ['all', 'x'] } })).toBe(true)
    expect(is('*', {})).toBe(false)
    for (const path of ['a.c', 'b', 'a.b.c', 'constructor', 'a.length', 'toString'])
      expect(is(path, { a: { b: 'x' } })).toBe(false)
  })

  it('“A rule with no condition at all needs `"match_all": true`.”', () => {
    const bare = { name: 'bare', verdict: 'deny' }
    expect(issues(bare)).toEqual([
      { path: 'match_all', message: expect.stringContaining('set `match_all` to true') },
    ])
    expect(issues({ ...bare, applies_to: ['agents'] })).toHaveLength(1)
    expect(ask([{ ...bare, match_all: true }]).verdict).toBe('deny')
  })

  it('“A `shadow` rule is evaluated and recorded in receipts, never enforced.”', () => {
    for (const verdict of ['deny', 'require_approval', 'allow']) {
      const decided = ask([{ verdict, status: 'shadow', match_all: true }])
      expect(decided).toMatchObject({ verdict: 'allow', ruleName: null, reason: 'no rule matched' })
      expect(decided.matchedRules).toEqual([{ id: 'rule_0', name: 'rule 0', verdict, shadow: true }])
    }
  })

  it('“applies_to?: ["workflows","agents"]”: the one, the other, or both, which is also the default', () => {
    for (const [applies_to, sources] of [
      [['workflows'], ['workflows']],
      [['agents'], ['agents']],
      [
        ['workflows', 'agents'],
        ['workflows', 'agents'],
      ],
      [undefined, ['workflows', 'agents']],
    ] as const)
      for (const source of ['workflows', 'agents'] as const) {
        const decided = ask([{ verdict: 'deny', match_all: true, applies_to }], { source })
        expect(decided.verdict === 'deny').toBe((sources as readonly string[]).includes(source))
      }
  })

  it('“tools?: [glob]”, of any of the three kinds', () => {
    const on = (glob: string, tool: string) =>
      ask([{ verdict: 'deny', tools: [glob] }], { tool }).verdict === 'deny'
    expect([on('mail_*', 'mail_send'), on('Bash', 'Bash'), on('mcp__crm__*', 'mcp__crm__send')]).toEqual([
      true,
      true,
      true,
    ])
    expect([on('mail_*', 'MAIL_send'), on('Bash', 'Bash2'), on('mcp__crm__*', 'mcp__crmx__y')]).toEqual([
      false,
      false,
      false,
    ])
  })
})

describe('label rules', () => {
  const labelled = (body: object, given: Partial<Call>): Label[] => {
    const rule = { ...labelRuleInput.parse({ name: 'l', add_labels: ['secret'], ...body }), id: 'lrule_1' }
    return addedLabels(compilePolicy({ rules: [], labelRules: [rule], approvalsEnabled: true }), {
      ...call,
      params: {},
      ...given,
    })
  }

  it('“{name, status, tools?, params?, labels?, add_labels}”: all that is given must hold', () => {
    const body = {
      tools: ['sheets_read'],
      params: [{ param: 'id', operator: 'equals', value: 'FILE1' }],
      labels: { any_of: ['internal'] },
    }
    const given: Partial<Call> = {
      tool: 'sheets_read',
      params: { id: 'https://docs.google.com/spreadsheets/d/FILE1/edit' },
      labels: ['internal'],
    }
    expect(labelled(body, given)).toEqual(['secret'])
    for (const other of [{ tool: 'docs_read' }, { params: { id: 'FILE2' } }, { labels: [] }])
      expect(labelled(body, { ...given, ...other })).toEqual([])
    expect(labelled({ ...body, status: 'inactive' }, given)).toEqual([])
    expect(labelled({ ...body, status: 'shadow' }, given)).toEqual([])
    expect(labelled({}, {})).toEqual(['secret'])
  })

  it('“labels are lower-case slugs”', () => {
    for (const label of [
      'PII',
      'top secret',
      'ä',
      '-a',
      'a-',
      'a--b',
      '',
      'a\n',
      'x'.repeat(65),
      '__proto__',
    ])
      expect(issues({ name: 'l', add_labels: [label] }, labelRuleInput)).toEqual([
        expect.objectContaining({ path: 'add_labels.0' }),
      ])
    for (const label of ['pii', 'top-secret', 'q3_2026', '1'])
      expect(issues({ name: 'l', add_labels: [label] }, labelRuleInput)).toEqual([])
  })
})

describe('the decision', () => {
  it('“No match: `allow`, `rule_name` null, reason `no rule matched`.”', () => {
    expect(ask([])).toMatchObject({
      verdict: 'allow',
      ruleName: null,
      ruleId: null,
      reason: 'no rule matched',
      matchedRules: [],
    })
    expect(ask([]).explanation).toMatch(/\.$/)
  })

  it('“Several: the most restrictive; among equals the one saved first gives `reason` (its name); all are in `matched_rules`”', () => {
    const verdicts = ['allow', 'require_approval', 'deny', 'require_approval', 'deny', 'allow']
    const decided = ask(verdicts.map((verdict) => ({ verdict, match_all: true })))
    expect(decided).toMatchObject({ verdict: 'deny', reason: 'rule 2', ruleName: 'rule 2', ruleId: 'rule_2' })
    expect(decided.matchedRules.map(({ verdict }) => verdict)).toEqual(verdicts)
    expect(decided.explanation).toBe('Rule `rule 2` denies `mail_send` because it covers every call.')
  })

  it('“A `require_approval` while `approvals_enabled` is false is a `deny` (… `explanation` says that approvals are off).”', () => {
    const decided = ask([{ verdict: 'require_approval', match_all: true }], {}, false)
    expect(decided).toMatchObject({ verdict: 'deny', reason: 'rule 0' })
    expect(decided.explanation).toContain('approvals are off')
  })

  it('“A rule that cannot be evaluated counts as matching if it restricts.”', () => {
    let deep: Json = 'y'
    for (let level = 0; level < 100; level++) deep = [deep]
    for (const verdict of restrictive) expect(holds(verdict, 'equals', 'x', p(deep))).toBe(true)
    expect(holds('allow', 'equals', 'y', p(deep))).toBe(false)
  })

  it('a call that takes more comparisons than there are is denied, whatever its rules say', () => {
    const params = p(Array.from({ length: comparisonBudget + 1 }, () => 'x'))
    for (const verdict of ['allow', ...restrictive])
      expect(
        ask([{ verdict, params: [{ param: 'p', operator: 'equals', value: 'y' }] }], { params }),
      ).toMatchObject({
        verdict: 'deny',
        reason: 'call too large to evaluate',
      })
  })
})
