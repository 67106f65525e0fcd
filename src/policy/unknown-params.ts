import { Budget, BudgetExceeded } from './budget.ts'
import type { CompiledPolicy, CompiledRule } from './compile.ts'
import { effectOf, needsRule, withoutAllowRule, type Call } from './decide.ts'
import { evaluate, type Subject } from './evaluate.ts'
import { knownLabels, type Origins } from './label-sets.ts'
import { explainApprovalsOff, explainVerdict } from './explain.ts'
import { no, yes } from './tri.ts'
import { rank, type Label, type Verdict } from './types.ts'
import { Hole } from './values.ts'

export interface CertainVerdict {
  readonly verdict: Verdict
  /** A rule that gives this verdict for all parameters; null for `allow` without one. */
  readonly ruleName: string | null
  readonly explanation: string
}

/** Null if the parameters could change the verdict. `labels` include those of all their sources. Never throws. */
export function decideWithoutParams(
  policy: CompiledPolicy,
  call: Omit<Call, 'params' | 'paramLabels'>,
): CertainVerdict | null {
  const subject = subjectOf(policy, call)
  const certain: CompiledRule[] = []
  const possible: CompiledRule[] = []
  try {
    for (const rule of policy.rulesFor(call.tool, call.sideEffect, call.source)) {
      if (rule.isShadow) continue
      const matches = evaluate(rule, subject)
      if (matches === yes) certain.push(rule)
      if (matches !== no) possible.push(rule)
    }
  } catch (error) {
    if (error instanceof BudgetExceeded) return null
    throw error
  }
  const least = strictest(certain)
  if (needsRule(policy, call) && verdictOf(policy, least) !== 'deny') {
    const allows = (rules: readonly CompiledRule[]): boolean =>
      rules.some(({ verdict }) => verdict === 'allow')
    if (!allows(possible)) {
      const { verdict, explanation } = withoutAllowRule(call.tool)
      return { verdict, ruleName: null, explanation }
    }
    if (!allows(certain)) return null
  }
  const verdict = verdictOf(policy, least)
  if (verdict !== verdictOf(policy, strictest(possible))) return null
  if (least === null) return { verdict, ruleName: null, explanation: 'No rule matched the call.' }
  const explain = verdict === least.verdict ? explainVerdict : explainApprovalsOff
  return { verdict, ruleName: least.name, explanation: explain(least, call.tool) }
}

const verdictOf = (policy: CompiledPolicy, rule: CompiledRule | null): Verdict =>
  rule === null ? 'allow' : effectOf(policy, rule.verdict)

/** The first of equally restrictive rules. */
const strictest = (rules: readonly CompiledRule[]): CompiledRule | null =>
  rules.reduce<CompiledRule | null>(
    (best, rule) => (best === null || rank[rule.verdict] > rank[best.verdict] ? rule : best),
    null,
  )

function subjectOf(
  { facts }: CompiledPolicy,
  { tool, source, labels, destination = null }: Pick<Call, 'tool' | 'source' | 'destination' | 'labels'>,
): Subject {
  const { places, defaults } = facts.reading(tool, source)
  return {
    params: new Hole(null),
    places,
    defaults,
    destination: source === 'agents' ? undefined : destination,
    labels: knownLabels(labels),
    origins: source === 'agents' ? null : unknownOrigins(labels),
    budget: new Budget(),
    byLabels: new Map(),
    found: new Map(),
  }
}

/** In a run, each parameter may be built from any of the call's sources, or from none. */
const unknownOrigins = (labels: readonly Label[]): Origins =>
  new Map([['', { definite: new Set(), possible: new Set(labels), isOpen: false }]])
