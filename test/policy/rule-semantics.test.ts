import { describe, expect, it } from '@jest/globals'
import { comparisonBudget } from '../../src/policy/budget.ts'
import { addedLabels, type Call, compilePolicy } from '../../src/policy/decide.ts'
import { labelRuleInput } from '../../src/policy/rule.ts'
import type { Json, JsonObject, Label } from '../../src/policy/types.ts'
import { ask, call, holds, issues, p, restrictive } from './rule-semantics.ts'

/*
 * The semantics of saved rules. Their operators are tested in rule-semantics-operators.test.ts, their routes and
 * codes in test/api/rules/saving-rules.test.ts.
 */

describe('conditions', () => {
  it('all given conditions must hold', () => {
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

  it('`param` is a dotted path; `*` means any parameter', () => {
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

  it('a rule with no condition at all needs `"match_all": true`', () => {
    const bare = { name: 'bare', verdict: 'deny' }
    expect(issues(bare)).toEqual([
      { path: 'match_all', message: expect.stringContaining('set `match_all` to true') },
    ])
    expect(issues({ ...bare, applies_to: ['agents'] })).toHaveLength(1)
    expect(ask([{ ...bare, match_all: true }]).verdict).toBe('deny')
  })

  it('a shadow rule is evaluated and recorded, never enforced', () => {
    for (const verdict of ['deny', 'require_approval', 'allow']) {
      const decided = ask([{ verdict, status: 'shadow', match_all: true }])
      expect(decided).toMatchObject({ verdict: 'allow', ruleName: null, reason: 'no rule matched' })
      expect(decided.matchedRules).toEqual([{ id: 'rule_0', name: 'rule 0', verdict, shadow: true }])
    }
  })

  it('`applies_to` names workflows, agents, or both, which is the default', () => {
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

  it('`tools` takes globs for tools of all three kinds', () => {
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

  it('all given conditions of a label rule must hold', () => {
    const body = {
      tools: ['sheets_read'],
      params: [{ param: 'spreadsheet', operator: 'equals', value: 'FILE1' }],
      labels: { any_of: ['internal'] },
    }
    const given: Partial<Call> = {
      tool: 'sheets_read',
      params: { spreadsheet: 'https://docs.google.com/spreadsheets/d/FILE1/edit' },
      labels: ['internal'],
    }
    expect(labelled(body, given)).toEqual(['secret'])
    for (const other of [{ tool: 'docs_read' }, { params: { spreadsheet: 'FILE2' } }, { labels: [] }])
      expect(labelled(body, { ...given, ...other })).toEqual([])
    expect(labelled({ ...body, status: 'inactive' }, given)).toEqual([])
    expect(labelled({ ...body, status: 'shadow' }, given)).toEqual([])
    expect(labelled({}, {})).toEqual(['secret'])
  })

  it('labels are lower-case slugs', () => {
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
  it('without a matching rule the verdict is `allow` with the reason `no rule matched`', () => {
    expect(ask([])).toMatchObject({
      verdict: 'allow',
      ruleName: null,
      ruleId: null,
      reason: 'no rule matched',
      matchedRules: [],
    })
    expect(ask([]).explanation).toMatch(/\.$/)
  })

  it('the most restrictive rule decides; among equally strict ones the one saved first gives the reason; all are in `matched_rules`', () => {
    const verdicts = ['allow', 'require_approval', 'deny', 'require_approval', 'deny', 'allow']
    const decided = ask(verdicts.map((verdict) => ({ verdict, match_all: true })))
    expect(decided).toMatchObject({ verdict: 'deny', reason: 'rule 2', ruleName: 'rule 2', ruleId: 'rule_2' })
    expect(decided.matchedRules.map(({ verdict }) => verdict)).toEqual(verdicts)
    expect(decided.explanation).toBe('Rule `rule 2` denies `mail_send` because it covers every call.')
  })

  it('`require_approval` while approvals are off is a denial that says so', () => {
    const decided = ask([{ verdict: 'require_approval', match_all: true }], {}, false)
    expect(decided).toMatchObject({ verdict: 'deny', reason: 'rule 0' })
    expect(decided.explanation).toContain('approvals are off')
  })

  it('a rule that cannot be evaluated counts as matching if it restricts', () => {
    let deep: Json = 'y'
    for (let level = 0; level < 100; level++) deep = [deep]
    for (const verdict of restrictive) expect(holds(verdict, 'equals', 'x', p(deep))).toBe(true)
    expect(holds('allow', 'equals', 'y', p(deep))).toBe(false)
  })

  it('a call that needs more comparisons than the limit is denied, whatever its rules say', () => {
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
