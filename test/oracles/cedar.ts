import { preparsePolicySet, statefulIsAuthorized } from '@cedar-policy/cedar-wasm/nodejs'
import type { Answer, Oracle } from './agree.ts'
import { askedBy, contextOf, filledIn, type CallContext } from './cedar-context.ts'
import { basePolicy, labelPolicyOf, policyOf } from './cedar-policies.ts'
import type { LabelOracle } from './label-suite.ts'

/**
 * Cedar: every rule becomes a policy. A rule that denies forbids the call. A rule that holds forbids it only when
 * unattended. Cedar combines them and says which policies determined its answer. Rules that allow, and shadow rules,
 * become permits of separate actions, so that Cedar also says whether they match.
 */
export const cedarOracle: Oracle = (one) => {
  const asked = askedBy(one.rules)
  const contexts = new Map(one.calls.map((call) => [call, contextOf(call, asked)]))
  const filled = filledIn(one.calls, [...contexts.values()])
  const policies = Object.fromEntries(
    one.rules.flatMap((rule, index) =>
      rule.status === 'inactive' ? [] : [[String(index), policyOf(rule, filled)]],
    ),
  )
  const parsed = preparsePolicySet('case', { staticPolicies: { base: basePolicy, ...policies } })
  if (parsed.type === 'failure') throw new Error(JSON.stringify([parsed.errors, policies]))
  const hasPermits = Object.values(policies).some((policy) => policy.startsWith('permit'))
  return (call) => {
    const context = contexts.get(call) as CallContext
    const ask = (action: string) => authorize(action, context as unknown as Context)
    const unattended = ask('unattended')
    const noted = hasPermits ? ask('note') : unattended
    // A call that is allowed when unattended is always allowed, so Cedar is not asked again.
    const whole = unattended.isAllowed ? unattended : ask('call')
    const matched = [...new Set([...whole.rules, ...unattended.rules, ...noted.rules])].sort((a, b) => a - b)
    const verdict = !whole.isAllowed ? 'deny' : !unattended.isAllowed ? 'require_approval' : 'allow'
    const deciding = matched.find(
      (index) => one.rules[index]?.status === 'active' && one.rules[index]?.verdict === verdict,
    )
    const isRefused = verdict === 'require_approval' && !one.approvalsEnabled
    return { matched, deciding: deciding ?? null, effect: isRefused ? 'deny' : verdict } satisfies Answer
  }
}

/** A label rule permits the actions of adding its labels; Cedar denies every action that no policy permits. */
export const cedarLabelOracle: LabelOracle = (one) => {
  const asked = askedBy(one.rules)
  const contexts = new Map(one.calls.map((call) => [call, contextOf(call, asked)]))
  const filled = filledIn(one.calls, [...contexts.values()])
  const active = one.rules.filter(({ status }) => status === 'active')
  const policies = Object.fromEntries(
    active.map((rule, index) => [String(index), labelPolicyOf(rule, filled)]),
  )
  const parsed = preparsePolicySet('case', { staticPolicies: policies })
  if (parsed.type === 'failure') throw new Error(JSON.stringify([parsed.errors, policies]))
  const labels = [...new Set(active.flatMap((rule) => rule.add_labels))].sort()
  return (call) => {
    const context = contexts.get(call) as unknown as Context
    return labels.filter((label) => authorize(`add ${label}`, context).isAllowed)
  }
}

type Context = Parameters<typeof statefulIsAuthorized>[0]['context']

function authorize(action: string, context: Context): { isAllowed: boolean; rules: number[] } {
  const answer = statefulIsAuthorized({
    principal: { type: 'Caller', id: 'c' },
    action: { type: 'Action', id: action },
    resource: { type: 'Tool', id: 't' },
    context,
    preparsedPolicySetId: 'case',
    entities: [],
  })
  if (answer.type === 'failure') throw new Error(JSON.stringify(answer.errors))
  const { decision, diagnostics } = answer.response
  if (diagnostics.errors.length > 0) throw new Error(JSON.stringify(diagnostics.errors))
  return {
    isAllowed: decision === 'allow',
    rules: diagnostics.reason.filter((id) => id !== 'base').map(Number),
  }
}
