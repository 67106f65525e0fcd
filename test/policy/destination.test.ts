import { describe, expect, test } from '@jest/globals'
import { type Call, compilePolicy, decide } from '../../src/policy/decide.ts'
import { type RuleBody, ruleInput } from '../../src/policy/rule.ts'

type Condition = NonNullable<RuleBody['params']>[number]

const verdictOf = (
  condition: Omit<Condition, 'param'>,
  call: Partial<Call>,
  verdict: 'deny' | 'allow' = 'deny',
) => {
  const params = [{ param: 'destination', ...condition } as Condition]
  const rules = [{ id: 'r', name: 'hosts', verdict, status: 'active' as const, params }]
  const policy = compilePolicy({ rules, labelRules: [], approvalsEnabled: true })
  const base: Call = { source: 'workflows', tool: 'web_search', sideEffect: 'read', params: {}, labels: [] }
  return decide(policy, { ...base, ...call }).matchedRules.length > 0
}

describe('a rule on the host of a call', () => {
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
    expect(verdictOf(condition as unknown as Omit<Condition, 'param'>, { destination })).toBe(expected)
  })

  test('a rule that allows names the port too', () => {
    const host = { operator: 'equals', value: 'acme.com' } as unknown as Omit<Condition, 'param'>
    expect(verdictOf(host, { destination: 'acme.com' }, 'allow')).toBe(true)
    expect(verdictOf(host, { destination: 'acme.com:8443' }, 'allow')).toBe(false)
  })

  test('sees the host, and no parameter that a caller gives this name', () => {
    const wanted = { operator: 'equals', value: 'api.github.com' } as unknown as Omit<Condition, 'param'>
    expect(
      verdictOf(wanted, { destination: 'evil.example', params: { destination: 'api.github.com' } }),
    ).toBe(false)
    expect(verdictOf(wanted, { source: 'agents', params: { destination: 'api.github.com' } })).toBe(true)
  })

  test('can be saved for any tool of the catalogue', () => {
    const rule = { name: 'r', verdict: 'deny', tools: ['github_comment'], params: [{ param: 'destination', operator: 'domain_not_in', value: ['github.com'] }] } // prettier-ignore
    expect(ruleInput.safeParse(rule).success).toBe(true)
  })
})
