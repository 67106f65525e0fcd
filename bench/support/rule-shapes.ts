import type { StoredRule } from '../../src/policy/rule.ts'
import { facts } from '../../src/tools/index.ts'
import type { Plan, PlanStep } from '../../src/policy/plan-types.ts'
import type { Call } from '../../src/policy/decide.ts'
import type { JsonObject } from '../../src/policy/types.ts'

const names = facts.tools.map(({ name }) => name)
const verdicts = ['deny', 'require_approval', 'allow'] as const

/** A condition whose kind depends on `index`. Almost no condition matches the calls below. */
function condition(index: number, param: string) {
  const kinds = [
    { param, operator: 'domain_in', value: [`partner${index}.example`] },
    { param, operator: 'equals', value: `document-${index}` },
    { param, operator: 'contains', value: `secret-${index}` },
    { param, operator: 'in', value: [`a-${index}`, `b-${index}`] },
    { param, operator: 'startswith', value: `https://intranet.example/${index}/` },
  ] as const
  return kinds[index % kinds.length] as (typeof kinds)[number]
}

/**
 * Returns rules. With `spread`, the rules name the tools of the catalogue in turn. With `star`, all rules cover the
 * same tool, and each rule checks every parameter.
 */
export function rulesOf(shape: 'spread' | 'star', count: number): StoredRule[] {
  return Array.from({ length: count }, (_, index) => {
    const tool = shape === 'star' ? 'mail_send' : (names[index % names.length] as string)
    const each = condition(index, shape === 'star' ? '*' : 'to')
    return {
      id: `rule_${index}`,
      name: `rule ${index}`,
      verdict: verdicts[index % 3] as (typeof verdicts)[number],
      status: 'active',
      tools: [tool],
      params: [{ ...each, value: typeof each.value === 'string' ? each.value : [...each.value] }],
    } as StoredRule
  })
}

const bodies = ['Figures of the third quarter', 'https://docs.google.com/document/d/1AbCdEf/edit', 'hello']

/** Returns ordinary calls. In one of ten calls, a parameter meets the condition of a rule. */
export function callsOf(shape: 'spread' | 'star', count: number): Call[] {
  return Array.from({ length: count }, (_, index) => ({
    source: 'workflows',
    tool: shape === 'star' ? 'mail_send' : (names[index % names.length] as string),
    sideEffect: 'egress',
    labels: ['internal'],
    params: paramsOf(index),
  }))
}

function paramsOf(index: number): JsonObject {
  const isMet = index % 10 === 0
  return {
    to: isMet
      ? `ann@partner${(index * 5) % 1000}.example`
      : `Ann <ann${index}@larkspur.example>, bo@acme.com`,
    subject: `Report ${index}`,
    text: bodies[index % bodies.length] as string,
  }
}

/**
 * Returns a plan in which each step depends on the step before it. The text of every second step contains an output, so
 * this text is known only during the run.
 */
export function planOf(steps: number): Plan {
  return {
    steps: Array.from({ length: steps }, (_, index): PlanStep => ({
      id: `s${index}`,
      tool: 'mail_send',
      sideEffect: 'egress',
      outputLabels: [],
      params:
        index % 2 === 0
          ? paramsOf(index + 1)
          : { ...paramsOf(index + 1), text: `From before: {{steps.s${index - 1}.output.message_id}}` },
      dependsOn: index === 0 ? [] : [`s${index - 1}`],
    })),
    inputs: {},
    areInputsComplete: true,
    requesterEmail: 'ann@larkspur.example',
  }
}
