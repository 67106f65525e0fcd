import fc from 'fast-check'
import { expect, test } from '@jest/globals'
import { requirementFor } from '../../src/governance/approvals/records.ts'
import { missingVotes } from '../../src/governance/approvals/requirement.ts'
import { ruleInput } from '../../src/governance/rules/rule-kinds.ts'
import { decide } from '../../src/policy/decide.ts'
import type { RuleBody } from '../../src/policy/rule.ts'
import { whyLooserRule } from '../../src/policy/strictness.ts'
import { facts } from '../../src/tools/index.ts'
import { compilePolicy } from '../support/compile.ts'

const groups = ['finance', 'legal', 'ops']
type Who = 'admin' | 'owner' | { readonly group: string }
const who = fc.constantFrom<Who>('admin', 'owner', ...groups.map((group) => ({ group })))
const seatOf = (each: Who) => (typeof each === 'string' ? { role: each } : each)
const seats = fc
  .array(fc.record({ who, count: fc.integer({ min: 1, max: 2 }) }), { minLength: 1, maxLength: 3 })
  .map((all) => ({ approvers: all.map((each) => ({ ...seatOf(each.who), count: each.count })) }))
const escalate = fc.array(fc.record({ after_seconds: fc.constantFrom(60, 7_200), to: who }), { maxLength: 2 })
const rule = fc
  .tuple(seats, escalate)
  .map(([asked, later]) => ({ name: 'it', verdict: 'require_approval', tools: ['mail_send'], ...asked, ...(later.length === 0 ? {} : { escalate: later }) }))
  .map((body) => ruleInput.safeParse(body))
  .filter(({ success }) => success)
  .map(({ data }) => data as RuleBody) // prettier-ignore
const votes = fc.array(
  fc.record({
    role: fc.constantFrom('member' as const, 'admin' as const, 'owner' as const),
    groups: fc.subarray(groups),
    at: fc.constantFrom(0, 4_000, 8_000),
  }),
  { minLength: 1, maxLength: 4 },
)

/** null if the call is allowed. */
function needed(rules: readonly RuleBody[], threshold: number) {
  const policy = compilePolicy({
    rules: rules.map((each, index) => ({ ...each, id: `${index}` })),
    labelRules: [],
    approvalsEnabled: true,
  })
  const decided = decide(policy, { source: 'agents', tool: 'mail_send', sideEffect: 'egress', params: {}, labels: [] }) // prettier-ignore
  const settings = { approval_threshold: threshold, allow_self_approval: false }
  const ids = new Map(groups.map((group) => [group, group]))
  return decided.verdict === 'allow' ? null : requirementFor(decided.seats, { settings, groups: ids } as never, new Date(0)) // prettier-ignore
}

test('no votes are enough after a change that counts as strict, and too few before it', () => {
  const seen = { strict: 0, looser: 0, enough: 0 }
  const cases = fc.record({
    rules: fc.array(rule, { minLength: 1, maxLength: 3 }),
    next: fc.option(rule, { nil: null }),
    how: fc.constantFrom('create', 'change', 'without escalation'),
    threshold: fc.integer({ min: 1, max: 3 }),
    people: fc.array(votes, { minLength: 20, maxLength: 20 }),
  })
  fc.assert(
    fc.property(cases, ({ rules: [one, ...others], next, how, threshold, people }) => {
      const first = one as RuleBody
      const { escalate: _, ...rest } = first
      const before = how === 'create' ? null : first
      const after = how === 'create' ? first : how === 'change' ? next : rest
      if (whyLooserRule({ before, after, others }, { facts, threshold, usualSeconds: 3_600 }).length > 0) {
        seen.looser += 1
        return
      }
      seen.strict += 1
      const [was, is] = [before, after].map((each) => needed([...others, ...(each === null ? [] : [each])], threshold)) // prettier-ignore
      if (!was) return
      if (!is) throw new Error('the call is no longer held')
      for (const set of people) {
        const cast = set.map((each, index) => ({ ...each, user_id: `${index}`, for_user: null, at: new Date(each.at * 1_000), decision: 'approve' as const })) // prettier-ignore
        const missing = (required: typeof is) =>
          missingVotes(cast, { requested_by: 'x', authors: [] }, required)
        if (missing(is) > 0) continue
        seen.enough += 1
        expect(missing(was)).toBe(0)
      }
    }),
    { numRuns: 3_000 },
  )
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(50)
})
