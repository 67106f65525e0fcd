import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { Budget, comparisonBudget } from '../../src/policy/budget.ts'
import { addedLabels, decide, type Call, type PolicySource } from '../../src/policy/decide.ts'
import { compilePolicy } from '../support/compile.ts'
import { comparable } from '../../src/policy/readers/google-links.ts'
import { normalHost, ruleDomain } from '../../src/policy/readers/hosts.ts'
import { hostsIn } from '../../src/policy/readers/recipients.ts'
import type { StoredLabelRule, StoredRule } from '../../src/policy/rule.ts'
import { ruleInput } from '../../src/governance/rules/rule-kinds.ts'
import { rank, unionLabels, type Verdict, type Json } from '../../src/policy/types.ts'
import { decideWithoutParams } from '../../src/policy/unknown-params.ts'
import { aCase } from '../oracles/cases.ts'
import { allTexts } from '../oracles/texts.ts'

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

const tooLarge = { verdict: 'deny', reason: 'call too large to evaluate' }

function policy(rules: StoredRule[], more: Partial<PolicySource> = {}) {
  return compilePolicy({ rules, labelRules: [], approvalsEnabled: true, ...more })
}

describe('the verdict', () => {
  test('without a match a call is allowed', () => {
    const nothing = { verdict: 'allow', ruleId: null, ruleName: null, reason: 'no rule matched' }
    expect(decide(policy([]), call)).toMatchObject({ ...nothing, matchedRules: [] })
    expect(decide(policy([]), call).explanation).toMatch(/\.$/)
  })

  test('with `default_agent_access: deny`, a call of an agent passes only where a rule allows it', () => {
    const read: Call = { ...call, source: 'agents', tool: 'Read', sideEffect: 'read' }
    const only = (...rules: StoredRule[]) => policy(rules, { agentAccess: 'deny' })
    const refused = { verdict: 'deny', reason: 'no rule allows it', ruleName: null }
    const explanation = expect.stringContaining('none allows `Read`: ask an admin')
    expect(decide(only(), read)).toMatchObject({ ...refused, explanation })
    expect(decide(only(rule('a', 'allow', { tools: ['Write'] })), read)).toMatchObject(refused)
    expect(decide(only(rule('a', 'allow', { status: 'shadow' })), read)).toMatchObject(refused)
    const labelled = rule('a', 'allow', { labels: { any_of: ['confidential'] } })
    for (const allowing of [
      rule('a', 'allow', { tools: ['Re*'] }),
      rule('a', 'allow', { side_effects: ['read'] }),
      labelled,
    ])
      expect(decide(only(allowing), read)).toMatchObject({ verdict: 'allow', ruleName: 'a' })
    // It lifts that default and nothing else.
    expect(decide(only(rule('a', 'allow'), rule('h', 'require_approval')), read).verdict).toBe(
      'require_approval',
    )
    expect(decide(only(rule('a', 'allow'), rule('d', 'deny')), read)).toMatchObject({ reason: 'd' })
    expect(decide(only(rule('h', 'require_approval')), read)).toMatchObject(refused)
    expect(decide(only(rule('d', 'deny')), read)).toMatchObject({ reason: 'd' })
    expect(decide(only(), call).verdict).toBe('allow')
    expect(decide(policy([]), { ...read, needsRule: true })).toMatchObject(refused)
  })

  test('the most restrictive rule wins, and all matches are reported in saved order', () => {
    const decided = decide(
      policy([rule('a', 'allow'), rule('h', 'require_approval'), rule('d', 'deny')]),
      call,
    )
    expect(decided).toMatchObject({ verdict: 'deny', ruleId: 'rule_d', reason: 'd' })
    expect(decided.explanation).toBe('Rule `d` denies `mail_send` because it covers every call.')
    expect(decided.matchedRules.map((each) => each.name)).toEqual(['a', 'h', 'd'])
  })

  test('among equally strict rules the one saved first gives the reason', () => {
    expect(decide(policy([rule('first', 'deny'), rule('second', 'deny')]), call).reason).toBe('first')
  })

  test('a saved name with line breaks stands in one line', () => {
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
    const decided = (verdict: Verdict) => decide(policy([rule('r', verdict, damage as never)]), call)
    expect(decided('deny')).toMatchObject({ verdict: 'deny', reason: 'r' })
    expect(decided('allow').verdict).toBe(damage.verdict ? 'deny' : 'allow')
  })

  test('a call that needs more comparisons than the limit is denied, whatever its rules say', () => {
    const params = { list: Array.from({ length: comparisonBudget + 1 }, () => 'x') }
    const looks = { params: [{ param: '*', operator: 'equals' as const, value: 'y' }] }
    for (const verdict of ['allow', 'require_approval', 'deny'] as const)
      expect(decide(policy([rule('a', verdict, looks)]), { ...call, params })).toMatchObject(tooLarge)
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
    expect(decide(unlessPublic(), read)).toMatchObject(tooLarge)
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
    expect(decide(policy([far('a')]), { ...call, params: to(50_000) })).toMatchObject(tooLarge)
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
    [{ applies_to: ['workflows', 'agents'] }, true],
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
      seats: [{ role: 'owner', count: 3 }],
      expiresAfterSeconds: 60,
    })
  })

  test('ask for the strictest role, and for each group with its highest count', () => {
    const seatsOf = (...rules: StoredRule[]) => decide(policy(rules), call).seats
    const finance = { group: 'finance', count: 1 }
    expect(
      seatsOf(
        hold('a', { approvers: [finance, { role: 'admin', count: 2 }] }),
        hold('b', { approver: { group: 'finance' }, approvals_needed: 3 }),
        hold('c', { approver: { group: 'legal' } }),
        hold('d', { approver: 'owner' }),
        hold('e', { status: 'shadow', approver: { group: 'board' } }),
      ),
    ).toEqual([
      { ...finance, count: 3 },
      { role: 'owner', count: 2 },
      { group: 'legal', count: 1 },
    ])
    expect(seatsOf(hold('a', { approver: { group: 'finance' } }))).toEqual([finance])
  })

  test('that cannot be read are filled by nobody', () => {
    const broken = hold('a', { approvers: 5 as never })
    expect(decide(policy([broken]), call).seats).toEqual([{ group: '', count: 1 }])
  })

  test('it never expires only if no rule names a time', () => {
    expect(decide(policy([hold('a', {})]), call).expiresAfterSeconds).toBeNull()
    expect(decide(policy([hold('a', { expires_after_seconds: 0 })]), call).expiresAfterSeconds).toBe(0)
    expect(decide(policy([hold('a', {})]), call)).toMatchObject({ seats: [{ role: 'admin', count: 1 }] })
  })
})

describe('label rules', () => {
  const add = (label: string, more: Partial<StoredLabelRule> = {}): StoredLabelRule => ({
    id: `lrule_${label}`,
    name: label,
    status: 'active',
    add_labels: [label],
    ...more,
  })
  const sheets: Call = {
    source: 'workflows',
    tool: 'sheets_read',
    sideEffect: 'read',
    params: { sheet: 'SHEET1' },
    labels: ['confidential'],
  }
  const added = (labelRules: StoredLabelRule[], asked = sheets) =>
    addedLabels(compilePolicy({ rules: [], labelRules, approvalsEnabled: true }), asked)

  test('reading a named sheet adds its label, by id or by link', () => {
    const named = add('secret', {
      tools: ['sheets_*'],
      labels: { any_of: ['confidential'] },
      params: [
        { param: 'sheet', operator: 'equals', value: 'https://docs.google.com/spreadsheets/d/SHEET1/edit' },
      ],
    })
    expect(added([named])).toEqual(['secret'])
    expect(added([named], { ...sheets, params: { sheet: 'SHEET2' } })).toEqual([])
    expect(added([named], { ...sheets, params: { sheet: ['SHEET0', 'SHEET1'] } })).toEqual(['secret'])
    expect(added([named], { ...sheets, tool: 'docs_read' })).toEqual([])
    expect(added([named], { ...sheets, labels: [] })).toEqual([])
  })

  test('only active rules add labels, sorted and once each', () => {
    const rules = [add('z'), add('a', { add_labels: ['z', 'a'] }), add('s', { status: 'shadow' })]
    expect(added([...rules, add('i', { status: 'inactive' })])).toEqual(['a', 'z'])
  })

  test('a rule that could not be compared completely adds its labels, and so do the rules after it', () => {
    const is = (value: string) => ({ params: [{ param: '*', operator: 'equals' as const, value }] })
    const rules = [add('first', is('none')), add('second', is('nothing'))]
    const params = { list: Array.from({ length: 90_000 }, () => 'x') }
    expect(added(rules, { ...sheets, params: { list: ['x'] } })).toEqual([])
    expect(added(rules, { ...sheets, params })).toEqual(['second'])
    expect(added(rules, { ...sheets, params: { list: [...params.list, ...params.list] } })).toEqual([
      'first',
      'second',
    ])
  })
})

describe('a rule on the host of a call', () => {
  const matches = (condition: object, given: Partial<Call>, verdict: Verdict = 'deny') => {
    const params = [{ param: 'destination', ...condition }] as StoredRule['params']
    const asked = { ...call, tool: 'web_search', params: {}, ...given }
    return decide(policy([rule('hosts', verdict, { params })]), asked).ruleId !== null
  }
  test.each([
    [{ operator: 'domain_in', value: ['acme.com'] }, 'search.acme.com', true],
    [{ operator: 'domain_in', value: ['acme.com'] }, 'search.acme.com:8443', true],
    [{ operator: 'domain_not_in', value: ['acme.com'] }, 'search.acme.com', false],
    [{ operator: 'domain_not_in', value: ['acme.com'] }, 'search.acme.com:8443', false],
    [{ operator: 'domain_not_in', value: ['acme.com'] }, 'acme.com.evil.example', true],
    [{ operator: 'equals', value: 'api.github.com' }, 'api.github.com', true],
    [{ operator: 'equals', value: 'evil.example' }, 'evil.example:8443', true],
    [{ operator: 'in', value: ['EVIL.example', 'x.example'] }, 'evil.example:8443', true],
    [{ operator: 'equals', value: 'evil.example:8443' }, 'evil.example:8443', true],
    [{ operator: 'equals', value: 'evil.example:8443' }, 'evil.example', false],
    [{ operator: 'equals', value: 'evil.example' }, 'not-evil.example', false],
    [{ operator: 'not_in', value: ['evil.example'] }, 'evil.example:8443', true],
    [{ operator: 'not_in', value: ['api.github.com'] }, 'evil.example', true],
    [{ operator: 'exists', value: true }, null, false],
    [{ operator: 'exists', value: false }, null, true],
  ] as const)('%j matches %s: %s', (condition, destination, expected) => {
    expect(matches(condition, { destination })).toBe(expected)
  })

  test('a rule that allows names the port too', () => {
    const host = { operator: 'equals', value: 'acme.com' }
    expect(matches(host, { destination: 'acme.com' }, 'allow')).toBe(true)
    expect(matches(host, { destination: 'acme.com:8443' }, 'allow')).toBe(false)
  })

  test('sees the host, and no parameter that a caller gives this name', () => {
    const wanted = { operator: 'equals', value: 'api.github.com' }
    const params = { destination: 'api.github.com' }
    expect(matches(wanted, { destination: 'evil.example', params })).toBe(false)
    expect(matches(wanted, { source: 'agents', params })).toBe(true)
  })

  test('can be saved for any tool of the catalogue', () => {
    const rule = { name: 'r', verdict: 'deny', tools: ['github_comment'], params: [{ param: 'destination', operator: 'domain_not_in', value: ['github.com'] }] } // prettier-ignore
    expect(ruleInput.safeParse(rule).success).toBe(true)
  })
})

const ask = (rules: readonly StoredRule[], call: Call, approvalsEnabled = true) =>
  decide(compilePolicy({ rules, labelRules: [], approvalsEnabled }), call)

/** Rules and one call; the law is about the last rule. */
const law = (holds: (rules: readonly StoredRule[], call: Call, last: StoredRule) => void) =>
  fc.assert(
    fc.property(aCase, ({ rules, calls }) => {
      const last = rules.at(-1) as StoredRule
      for (const call of calls) holds(rules, call, last)
    }),
    { numRuns: 300 },
  )

const ofEach = (text: string) => expect.arrayContaining([expect.objectContaining({ name: text })])

describe('laws of deciding', () => {
  test('the order of rules changes only which of equally strict rules gives the reason', () => {
    law((rules, call) => {
      const [there, back] = [ask(rules, call), ask([...rules].reverse(), call)]
      expect(back.verdict).toBe(there.verdict)
      expect([...back.matchedRules].reverse()).toEqual(there.matchedRules)
      const { seats, expiresAfterSeconds } = there
      expect(back.expiresAfterSeconds).toBe(expiresAfterSeconds)
      expect(new Set(back.seats)).toEqual(new Set(seats))
      const verdictOf = (id: string | null) => rules.find((rule) => rule.id === id)?.verdict
      expect(verdictOf(back.ruleId)).toBe(verdictOf(there.ruleId))
    })
  })

  test('an additional rule that restricts never loosens the verdict', () => {
    law((rules, call, last) => {
      const more = [...rules, { ...last, id: 'rule_more', verdict: 'deny', status: 'active' } as const]
      expect(rank[ask(more, call).verdict]).toBeGreaterThanOrEqual(rank[ask(rules, call).verdict])
    })
  })

  test('an additional rule that allows changes no verdict', () => {
    law((rules, call, last) => {
      const more = [...rules, { ...last, id: 'rule_more', verdict: 'allow', status: 'active' } as const]
      expect(ask(more, call).verdict).toBe(ask(rules, call).verdict)
    })
  })

  test('a shadow rule changes only the record, which shows whether it would match', () => {
    law((rules, call, last) => {
      const shadow = { ...last, id: 'rule_more', name: 'shadow', status: 'shadow' as const }
      const [without, withIt] = [ask(rules, call), ask([shadow, ...rules], call)]
      const others = withIt.matchedRules.filter(({ id }) => id !== shadow.id)
      expect({ ...withIt, matchedRules: others }).toEqual(without)
      const isMatch = ask([{ ...shadow, status: 'active' }], call).matchedRules.length === 1
      expect(withIt.matchedRules).toHaveLength(without.matchedRules.length + (isMatch ? 1 : 0))
      if (isMatch) expect(withIt.matchedRules).toEqual(ofEach('shadow'))
    })
  })

  test('with approvals off nothing is looser, and nothing is held', () => {
    law((rules, call) => {
      const [on, off] = [ask(rules, call), ask(rules, call, false)]
      expect(off.verdict).toBe(on.verdict === 'allow' ? 'allow' : 'deny')
      expect(off.ruleId).toBe(on.ruleId)
    })
  })

  test('the explanation is one sentence that names the rule', () => {
    law((rules, call) => {
      const { explanation, ruleName } = ask(rules, call)
      expect(explanation).toMatch(/\.$/)
      if (ruleName !== null) expect(explanation).toContain(`\`${ruleName}\``)
    })
  })
})

describe('the quantifier law', () => {
  const elements = fc.array(fc.constantFrom(...allTexts.filter((text) => text !== '')), {
    minLength: 1,
    maxLength: 4,
  })

  test('a list matches a restrictive rule if any element does, and an allowing rule only if all do', () => {
    fc.assert(
      fc.property(aCase, elements, ({ rules }, list) => {
        for (const rule of rules) {
          const [condition] = rule.params ?? []
          // `contains` has another meaning for a list; `exists` and `from_label` do not apply to elements.
          if (condition === undefined || ['contains', 'exists', 'from_label'].includes(condition.operator))
            continue
          const matches = (to: Json) => {
            const params = [{ ...condition, param: 'to' }]
            const only: StoredRule = { id: 'r', name: 'r', status: 'active', verdict: rule.verdict, params }
            return ask([only], { ...call, labels: [], params: { to } }).matchedRules.length === 1
          }
          const each = list.map(matches)
          expect(matches(list)).toBe(rule.verdict === 'allow' ? each.every(Boolean) : each.some(Boolean))
        }
      }),
      { numRuns: 500 },
    )
  })
})

describe('normal forms', () => {
  test('do not change when normalized again', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.constantFrom(...allTexts), fc.string(), fc.webUrl(), fc.emailAddress(), fc.domain()),
        (text) => {
          expect(comparable(comparable(text))).toBe(comparable(text))
          for (const host of hostsIn(text, new Budget()))
            if (host !== null) expect(normalHost(host)).toBe(host)
          const domain = ruleDomain(text)
          if ('domain' in domain) expect(ruleDomain(domain.domain)).toEqual(domain)
        },
      ),
      { numRuns: 5000 },
    )
  })
})

describe('a call whose parameters are not known yet', () => {
  const policyOf = (rules: readonly object[], approvalsEnabled = true) =>
    compilePolicy({
      rules: rules.map((rule, index) => ({ id: `r${index}`, name: `r${index}`, status: 'active', ...rule }) as StoredRule), // prettier-ignore
      labelRules: [],
      approvalsEnabled,
    })
  const byLabel = (verdict: string) => ({ verdict, labels: { any_of: ['confidential'] } })
  const fromLabel = [{ param: 'to', operator: 'from_label', value: ['confidential'] }]
  const byParam = (verdict: string) => ({
    verdict,
    params: [{ param: 'to', operator: 'exists', value: true }],
  })

  test.each([
    ['no rule', [], 'allow'],
    ['a rule on labels', [byLabel('deny')], 'deny'],
    ['a rule on a parameter', [byParam('deny')], null],
    ['a rule on a parameter that allows', [byParam('allow')], 'allow'],
    ['a stricter rule on labels', [byParam('require_approval'), byLabel('deny')], 'deny'],
    ['a stricter rule on a parameter', [byLabel('require_approval'), byParam('deny')], null],
    ['a shadow rule', [{ ...byLabel('deny'), status: 'shadow' }], 'allow'],
    ['a rule for agents', [{ ...byParam('deny'), applies_to: ['agents'] }], 'allow'],
    ['the source of a parameter', [{ verdict: 'deny', params: fromLabel }], null],
  ] as const)('with %s: %j is %s', (_, rules, verdict) => {
    expect(decideWithoutParams(policyOf(rules), call)?.verdict ?? null).toBe(verdict)
  })

  test('while approvals are off, a hold and a denial are the same verdict', () => {
    const rules = [byLabel('require_approval'), byParam('deny')]
    expect(decideWithoutParams(policyOf(rules, false), call)).toEqual({
      verdict: 'deny',
      ruleName: 'r0',
      explanation: expect.stringContaining('approvals are off'),
    })
  })

  test('a certain verdict is the verdict for all parameters and sources', () => {
    let certain = 0
    fc.assert(
      fc.property(aCase, ({ rules, approvalsEnabled, calls }) => {
        const policy = compilePolicy({ rules, labelRules: [], approvalsEnabled })
        for (const some of calls) {
          // In a real call, the labels of the sources of a parameter are labels of the call too.
          const each = { ...some, labels: unionLabels(some.labels, ...(some.paramLabels?.values() ?? [])) }
          const known = decideWithoutParams(policy, each)
          if (known === null) continue
          certain += 1
          expect(decide(policy, each).verdict).toBe(known.verdict)
        }
      }),
      { numRuns: 500 },
    )
    expect(certain).toBeGreaterThan(500)
  })
})
