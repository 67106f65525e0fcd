import { describe, expect, test } from '@jest/globals'
import { compilePolicy, decide } from '../../src/policy/decide.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import type { Json, Verdict } from '../../src/policy/types.ts'

/** A value made to pass for acme.com, an honest one of the same form, and why somebody would be taken in by the first. */
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

/** A rule against outsiders stops the hostile and lets the honest pass; one that allows insiders does the reverse. */
export function expectOutside(hostile: Json, honest: Json): void {
  for (const verdict of ['deny', 'require_approval'] as const) {
    expect(matches(verdict, 'domain_not_in', hostile)).toBe(true)
    expect(matches(verdict, 'domain_not_in', honest)).toBe(false)
  }
  expect(matches('allow', 'domain_in', hostile)).toBe(false)
  expect(matches('allow', 'domain_in', honest)).toBe(true)
}

/**
 * @param seen rows whose hostile value some reader takes to evil.net: a rule that names it must see it
 * @param unread rows whose host no reader can make out: they are outside of every domain, and that is all
 */
export function hostileSuite(name: string, seen: readonly Pair[], unread: readonly Pair[]): void {
  describe(name, () => {
    test.each([...seen, ...unread])('%j is outside, %j is not: %s', expectOutside)
    test.each(seen)('%j does not hide evil.net from a rule that names it', (hostile) => {
      expect(matches('deny', 'domain_in', hostile, 'evil.net')).toBe(true)
    })
  })
}
