import { isAuthorizedPartial } from '@cedar-policy/cedar-wasm/nodejs'
import type { Call } from '../../src/policy/decide.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import type { Verdict } from '../../src/policy/types.ts'
import { askedBy, contextOf, filledIn } from './cedar-context.ts'
import { basePolicy, policyOf } from './cedar-policies.ts'

/** A call of a plan. Parameters in `unknown` have no value yet. Their known labels are in `call`. */
export interface PlannedCall {
  readonly call: Call
  readonly unknown: ReadonlySet<string>
  /** Whether an unknown parameter can bring labels that nobody knows yet. */
  readonly areLabelsOpen: boolean
}

/** The least and the strictest verdict that Cedar's partial evaluation leaves open. */
export interface Bounds {
  readonly least: Verdict
  readonly most: Verdict
}

/**
 * Asks Cedar to decide a call with unknowns. To Cedar, a parameter with an unknown part is unknown as a whole. Cedar
 * answers null where the unknown can change its decision.
 */
export function cedarBounds(
  rules: readonly StoredRule[],
  approvalsEnabled: boolean,
  { call, unknown, areLabelsOpen }: PlannedCall,
): Bounds {
  const known = contextOf(call, askedBy(rules))
  const filled = filledIn([call], [known])
  const isOpen = (path: string): boolean => {
    const [param = ''] = path.split('.')
    return param === '*' ? unknown.size > 0 : unknown.has(param)
  }
  const open = (kind: string, records: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(
      Object.entries(records).map(([path, each]) => [path, isOpen(path) ? hole(`${kind} ${path}`) : each]),
    )
  const context = {
    ...known,
    labels: areLabelsOpen ? hole('labels') : known.labels,
    at: open('at', known.at),
    from: areLabelsOpen ? open('from', known.from) : known.from,
  }
  const policies = Object.fromEntries(
    rules
      .filter(({ status, verdict }) => status === 'active' && verdict !== 'allow')
      .map((rule, index) => [String(index), policyOf(rule, filled)]),
  )
  const decide = (action: string) => partially(action, { base: basePolicy, ...policies }, context)
  const [attended, unattended] = [decide('call'), decide('unattended')]
  const held: Verdict = approvalsEnabled ? 'require_approval' : 'deny'
  return {
    least: attended === 'deny' ? 'deny' : unattended === 'deny' ? held : 'allow',
    most: unattended === 'allow' ? 'allow' : attended === 'allow' ? held : 'deny',
  }
}

const hole = (arg: string) => ({ __extn: { fn: 'unknown', arg } })

type Question = Parameters<typeof isAuthorizedPartial>[0]

function partially(action: string, staticPolicies: Record<string, string>, context: object) {
  const answer = isAuthorizedPartial({
    principal: { type: 'Caller', id: 'c' },
    action: { type: 'Action', id: action },
    resource: { type: 'Tool', id: 't' },
    context: context as Question['context'],
    policies: { staticPolicies },
    entities: [],
  })
  if (answer.type === 'failure') throw new Error(JSON.stringify([answer.errors, staticPolicies]))
  const { decision, errored } = answer.response
  if (errored.length > 0) throw new Error(JSON.stringify([errored, staticPolicies]))
  return decision
}
