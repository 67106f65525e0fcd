import { describe, expect, test } from '@jest/globals'
import { compilePolicy, decide } from '../../src/policy/decide.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import type { Json, Verdict } from '../../src/policy/types.ts'

/**
 * A hostile value that only looks like acme.com, an honest value of the same form, and the reason why somebody might
 * be deceived.
 */
export type Pair = readonly [hostile: Json, honest: Json, why: string]

type Domains = 'domain_in' | 'domain_not_in'

/** Whether a rule of this verdict matches a call with this `to`. */
export function matches(verdict: Verdict, operator: Domains, to: Json, domain = 'acme.com'): boolean {
  const params: StoredRule['params'] = [{ param: 'to', operator, value: [domain] }]
  const rule = { id: 'rule_1', name: 'rule', status: 'active' as const, verdict, params }
  const policy = compilePolicy({ rules: [rule], labelRules: [], approvalsEnabled: true })
  const call = { source: 'workflows', tool: 't', sideEffect: 'egress', labels: [] } as const
  return decide(policy, { ...call, params: { to } }).ruleId !== null
}

/**
 * A rule against outsiders stops the hostile value and lets the honest one pass; a rule that allows insiders does the
 * reverse.
 */
export function expectOutside(hostile: Json, honest: Json): void {
  for (const verdict of ['deny', 'require_approval'] as const) {
    expect(matches(verdict, 'domain_not_in', hostile)).toBe(true)
    expect(matches(verdict, 'domain_not_in', honest)).toBe(false)
  }
  expect(matches('allow', 'domain_in', hostile)).toBe(false)
  expect(matches('allow', 'domain_in', honest)).toBe(true)
}

/**
 * @param seen rows whose hostile value leads some reader to evil.net, so a rule that names evil.net must match
 * @param unread rows whose host no reader can determine, so they are only outside every domain
 */
export function hostileSuite(name: string, seen: readonly Pair[], unread: readonly Pair[]): void {
  describe(name, () => {
    test.each([...seen, ...unread])('%j is outside, %j is not: %s', expectOutside)
    test.each(seen)('%j does not hide evil.net from a rule that names it', (hostile) => {
      expect(matches('deny', 'domain_in', hostile, 'evil.net')).toBe(true)
    })
  })
}
