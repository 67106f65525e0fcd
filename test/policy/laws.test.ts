import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { Budget } from '../../src/policy/budget.ts'
import { type Call, compilePolicy, decide } from '../../src/policy/decide.ts'
import { comparable } from '../../src/policy/readers/google-links.ts'
import { normalHost, ruleDomain } from '../../src/policy/readers/hosts.ts'
import { hostsIn } from '../../src/policy/readers/recipients.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import { type Json, rank } from '../../src/policy/types.ts'
import { aCase } from '../oracles/cases.ts'
import { allTexts } from '../oracles/texts.ts'

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
      const { approver, approvalsNeeded, expiresAfterSeconds } = there
      expect(back).toMatchObject({ approver, approvalsNeeded, expiresAfterSeconds })
      const verdictOf = (id: string | null) => rules.find((rule) => rule.id === id)?.verdict
      expect(verdictOf(back.ruleId)).toBe(verdictOf(there.ruleId))
    })
  })

  test('an additional rule that restricts never loosens the verdict', () => {
    law((rules, call, last) => {
      const more = [
        ...rules,
        { ...last, id: 'rule_more', verdict: 'deny' as const, status: 'active' as const },
      ]
      expect(rank[ask(more, call).verdict]).toBeGreaterThanOrEqual(rank[ask(rules, call).verdict])
    })
  })

  test('an additional rule that allows changes no verdict', () => {
    law((rules, call, last) => {
      const more = [
        ...rules,
        { ...last, id: 'rule_more', verdict: 'allow' as const, status: 'active' as const },
      ]
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
            const only = {
              id: 'r',
              name: 'r',
              status: 'active' as const,
              verdict: rule.verdict,
              params: [{ ...condition, param: 'to' }],
            }
            const call = {
              source: 'workflows',
              tool: 't',
              sideEffect: 'read',
              labels: [],
              params: { to },
            } as const
            return ask([only], call).matchedRules.length === 1
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
