import { type Call, type Decided, decide } from '../../src/policy/decide.ts'
import { compilePolicy } from '../support/compile.ts'
import { ruleInput } from '../../src/governance/rules/rule-kinds.ts'

/** Decides a call with rules of these bodies. */
export function ask(bodies: readonly object[], given: Partial<Call> = {}): Decided {
  const rules = bodies.map((body, index) => ({
    ...ruleInput.parse({ name: `rule ${index}`, ...body }),
    id: `rule_${index}`,
  }))
  const call = {
    source: 'workflows',
    tool: 'mail_send',
    sideEffect: 'egress',
    labels: [],
    params: {},
  } as const
  return decide(compilePolicy({ rules, labelRules: [], approvalsEnabled: true }), { ...call, ...given })
}
