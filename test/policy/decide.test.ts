import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { type Call, type PolicySource, addedLabels, compilePolicy, decide } from '../../src/policy/decide.ts'
import type { StoredLabelRule, StoredRule } from '../../src/policy/rule.ts'
import { type Verdict, rank } from '../../src/policy/types.ts'
import { source } from './arbitraries.ts'

const call: Call = {
  source: 'workflows',
  tool: 'mail_send',
  sideEffect: 'egress',
  params: { to: 'b@evil.net', text: 'hello' },
  labels: ['confidential'],
}

function rule(name: string, verdict: Verdict, more: Partial<StoredRule> = {}): StoredRule {
  return { id: `rule_${name}`, name, verdict, status: 'active', match_all: true, ...more }
}

function policy(rules: StoredRule[], more: Partial<PolicySource> = {}) {
  return compilePolicy({ rules, labelRules: [], approvalsEnabled: true, ...more })
}

describe('the verdict', () => {
  test('without a match a call is allowed', () => {
    const decided = decide(policy([]), call)
    expect(decided).toMatchObject({
      verdict: 'allow',
      ruleId: null,
      ruleName: null,
      reason: 'no rule matched',
    })
    expect(decided.matchedRules).toEqual([])
  })

  test('the most restrictive rule wins, and all matches are reported in saved order', () => {
    const decided = decide(
      policy([rule('a', 'allow'), rule('h', 'require_approval'), rule('d', 'deny')]),
      call,
    )
    expect(decided).toMatchObject({ verdict: 'deny', ruleId: 'rule_d', reason: 'd' })
    expect(decided.matchedRules.map((each) => each.name)).toEqual(['a', 'h', 'd'])
  })

  test('among equally strict rules the one saved first gives the reason', () => {
    expect(decide(policy([rule('first', 'deny'), rule('second', 'deny')]), call).reason).toBe('first')
  })

  test('a name with line breaks, saved by an older version, stands in one line', () => {
    const decided = decide(policy([rule('no mail\n\u202eAllowed by the owner', 'deny')]), call)
    const name = 'no mail Allowed by the owner'
    expect(decided).toMatchObject({ verdict: 'deny', reason: name, ruleName: name })
    expect(decided.matchedRules[0]?.name).toBe(name)
    expect(decided.explanation).toMatch(/^Rule `no mail Allowed by the owner` denies .*\.$/)
  })

  test('shadow rules are reported and never enforced; inactive rules are neither', () => {
    const rules = [rule('s', 'deny', { status: 'shadow' }), rule('i', 'deny', { status: 'inactive' })]
    const decided = decide(policy(rules), call)
    expect(decided).toMatchObject({ verdict: 'allow', reason: 'no rule matched' })
    expect(decided.matchedRules).toEqual([{ id: 'rule_s', name: 's', verdict: 'deny', shadow: true }])
  })

  test('a hold while approvals are off is a denial that says so', () => {
    const decided = decide(policy([rule('h', 'require_approval')], { approvalsEnabled: false }), call)
    expect(decided).toMatchObject({ verdict: 'deny', reason: 'h', ruleName: 'h' })
    expect(decided.explanation).toContain('approvals are off')
  })

  test('a frozen organization denies everything', () => {
    const decided = decide(policy([rule('a', 'allow')], { frozen: 'incident 7' }), call)
    expect(decided).toMatchObject({ verdict: 'deny', reason: 'organization frozen', ruleId: null })
    expect(decided.explanation).toContain('incident 7')
    expect(decide(policy([], { frozen: '' }), call).verdict).toBe('deny')
  })

  test('a rule that cannot be evaluated counts as matching if it restricts', () => {
    const broken = { params: [{ param: 'to', operator: 'resembles', value: 'x' }] as never }
    expect(decide(policy([rule('d', 'deny', broken)]), call)).toMatchObject({ verdict: 'deny', reason: 'd' })
    expect(decide(policy([rule('a', 'allow', broken)]), call)).toMatchObject({ reason: 'no rule matched' })
  })

  test.each([
    { tools: 'mail_send' },
    { tools: [7] },
    { params: 'to' },
    { params: [null] },
    { params: [{ param: 'to', operator: 'domain_in', value: ['com'] }] },
    { params: [{ operator: 'exists', value: true }, { operator: 'in' }] },
    { labels: { any_of: 7 } },
    { side_effects: 7 },
    { verdict: 'block' },
  ])('a damaged rule restricts: %j', (damage) => {
    expect(decide(policy([rule('d', 'deny', damage as never)]), call)).toMatchObject({
      verdict: 'deny',
      reason: 'd',
    })
    expect(decide(policy([rule('a', 'allow', damage as never)]), call).verdict).toBe(
      damage.verdict ? 'deny' : 'allow',
    )
  })

  test('a call with more values than can be compared is denied', () => {
    const params = { list: Array.from({ length: 150_000 }, (_, index) => `v${index}`) }
    const looks = (name: string) =>
      rule(name, 'deny', { params: [{ param: '*', operator: 'equals', value: 'nothing' }] })
    expect(decide(policy([looks('a'), looks('b')]), { ...call, params })).toMatchObject({
      verdict: 'deny',
      reason: 'call too large to evaluate',
    })
  })

  test('a call that is too large for the label rules is denied if it could get a label that lets calls escape a rule', () => {
    const params = { list: Array.from({ length: 250_000 }, (_, index) => `v${index}`) }
    const labelRules: StoredLabelRule[] = [
      {
        id: 'label_1',
        name: 'public files',
        status: 'active',
        tools: ['Read'],
        params: [{ param: '*', operator: 'equals', value: 'public' }],
        add_labels: ['public'],
      },
    ]
    const read = { ...call, tool: 'Read', sideEffect: 'write' as const, params }
    const unlessPublic = (more: Partial<StoredRule> = {}) =>
      policy(
        [rule('unless public', 'deny', { tools: ['mail_*'], labels: { none_of: ['public'] }, ...more })],
        {
          labelRules,
        },
      )
    expect(decide(unlessPublic(), read)).toMatchObject({
      verdict: 'deny',
      reason: 'call too large to evaluate',
    })
    expect(decide(unlessPublic(), { ...read, params: { list: ['v'] } }).verdict).toBe('allow')
    // A rule that denies the call anyway gives its own reason.
    expect(decide(unlessPublic({ tools: ['*'] }), read).reason).toBe('unless public')
    // No call escapes these rules by one more label, so the call gets the label and is allowed.
    for (const harmless of [
      { status: 'shadow' as const },
      { verdict: 'allow' as const },
      { labels: { any_of: ['public'] } },
    ])
      expect(decide(unlessPublic(harmless), read).verdict).toBe('allow')
    expect(addedLabels(unlessPublic({ status: 'shadow' }), read)).toEqual(['public'])
  })

  test('long text costs comparisons according to its length', () => {
    const params = { text: 'x'.repeat(4_000_000) }
    const rules = Array.from({ length: 100 }, (_, index) =>
      rule(`r${index}`, 'allow', { params: [{ param: 'text', operator: 'contains', value: `y${index}` }] }),
    )
    expect(decide(policy(rules), { ...call, params }).reason).toBe('call too large to evaluate')
    expect(decide(policy(rules.slice(0, 10)), { ...call, params }).verdict).toBe('allow')
  })

  test('a list of recipients costs comparisons for each entry, and is read once for all rules', () => {
    const far = (name: string) =>
      rule(name, 'allow', { params: [{ param: 'to', operator: 'domain_in', value: ['acme.com'] }] })
    const rules = Array.from({ length: 30 }, (_, index) => far(`r${index}`))
    const to = (count: number) => ({
      to: Array.from({ length: count }, (_, index) => `a@h${index}.acme.com`).join(','),
    })
    expect(decide(policy(rules), { ...call, params: to(1500) }).reason).toBe('r0')
    expect(decide(policy([far('a')]), { ...call, params: to(50_000) })).toMatchObject({
      verdict: 'deny',
      reason: 'call too large to evaluate',
    })
  })

  test('the explanation is one sentence that names rule, tool and conditions', () => {
    const rules = [
      rule('no leaks', 'deny', {
        side_effects: ['egress'],
        tools: ['mail_*'],
        labels: { any_of: ['confidential', 'pii'] },
        params: [{ param: 'to', operator: 'domain_not_in', value: ['acme.com'] }],
      }),
    ]
    expect(decide(policy(rules), call).explanation).toBe(
      'Rule `no leaks` denies `mail_send` because it sends data out, the tool matches `mail_*`, the data is labelled confidential or pii and `to` is outside `acme.com`.',
    )
  })

  test.each([
    [['mail_send'], 'it names this tool.'],
    [['memory_set', 'mail_send', 'x'], 'it names this tool.'],
    [['memory_*', 'mail_*'], 'the tool matches `memory_*` or `mail_*`.'],
  ])('the explanation of a rule for the tools %j says nothing twice', (tools, because) => {
    expect(decide(policy([rule('r', 'deny', { tools })]), call).explanation).toBe(
      `Rule \`r\` denies \`mail_send\` because ${because}`,
    )
  })
})

describe('conditions', () => {
  test.each<[Partial<StoredRule>, boolean]>([
    [{ side_effects: ['egress'] }, true],
    [{ side_effects: ['read', 'write'] }, false],
    [{ tools: ['mail_send'] }, true],
    [{ tools: ['slack_*', 'mail_?end'] }, true],
    [{ tools: ['mail'] }, false],
    [{ tools: ['MAIL_*'] }, false],
    [{ labels: { any_of: ['pii', 'confidential'] } }, true],
    [{ labels: { any_of: ['pii'] } }, false],
    [{ labels: { all_of: ['confidential'] } }, true],
    [{ labels: { all_of: ['confidential', 'pii'] } }, false],
    [{ labels: { none_of: ['pii'] } }, true],
    [{ labels: { none_of: ['confidential'] } }, false],
    [{ labels: { any_of: ['confidential'], none_of: ['confidential'] } }, false],
    [{ applies_to: ['workflows'] }, true],
    [{ applies_to: ['agents'] }, false],
    [{ side_effects: ['egress'], tools: ['nothing'] }, false],
    [
      {
        params: [
          { param: 'cc', operator: 'exists', value: true },
          { param: 'cc', operator: 'domain_not_in', value: ['acme.com'] },
        ],
      },
      false,
    ],
  ])('%j: %s', (conditions, expected) => {
    const decided = decide(policy([rule('r', 'deny', conditions)]), call)
    expect(decided.verdict === 'deny').toBe(expected)
  })

  test('the index distinguishes calls that differ only in source or side effect', () => {
    const compiled = policy([rule('r', 'deny', { side_effects: ['egress'], applies_to: ['agents'] })])
    expect(decide(compiled, call).verdict).toBe('allow')
    expect(decide(compiled, { ...call, source: 'agents' }).verdict).toBe('deny')
    expect(decide(compiled, { ...call, source: 'agents', sideEffect: 'read' }).verdict).toBe('allow')
  })
})

describe('terms of an approval', () => {
  const hold = (name: string, more: Partial<StoredRule>) => rule(name, 'require_approval', more)

  test('come from the strictest of all rules that hold', () => {
    const rules = [
      hold('a', { approvals_needed: 3, expires_after_seconds: 600 }),
      hold('b', { approver: 'owner', expires_after_seconds: 60 }),
      hold('c', { expires_after_seconds: 0, approvals_needed: 2 }),
      hold('s', { status: 'shadow', approvals_needed: 9, expires_after_seconds: 1 }),
      rule('d', 'allow', { approvals_needed: 8 }),
    ]
    expect(decide(policy(rules), call)).toMatchObject({
      reason: 'a',
      approver: 'owner',
      approvalsNeeded: 3,
      expiresAfterSeconds: 60,
    })
  })

  test('it never expires only if no rule names a time', () => {
    expect(decide(policy([hold('a', {})]), call).expiresAfterSeconds).toBeNull()
    expect(decide(policy([hold('a', { expires_after_seconds: 0 })]), call).expiresAfterSeconds).toBe(0)
    expect(decide(policy([hold('a', {})]), call)).toMatchObject({ approver: 'admin', approvalsNeeded: 1 })
  })
})

describe('laws', () => {
  test('an additional rule never makes a verdict less strict, whatever it says', () => {
    fc.assert(
      fc.property(source, source, (one, other) => {
        const verdict = (rules: readonly StoredRule[]) =>
          rank[decide(compilePolicy({ ...one, rules: [...rules] }), call).verdict]
        expect(verdict([...one.rules, ...other.rules])).toBeGreaterThanOrEqual(verdict(one.rules))
      }),
    )
  })

  test('the order of rules decides the reason, never the verdict', () => {
    fc.assert(
      fc.property(source, (rules) => {
        const reversed = { ...rules, rules: [...rules.rules].reverse() }
        expect(decide(compilePolicy(reversed), call).verdict).toBe(decide(compilePolicy(rules), call).verdict)
      }),
    )
  })
})
