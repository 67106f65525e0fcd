import type { Budget } from './budget.ts'
import type { CompiledPolicy } from './compile.ts'
import { type PlannedRule, type StepAnalysis, plannedRule, rulesOf } from './plan.ts'
import { casesOf } from './plan-cases.ts'
import { callsOf, outcomeOf } from './plan-outcome.ts'
import type { TextBudget } from './text-budget.ts'
import { no } from './tri.ts'

export interface ShownRule extends PlannedRule {
  /** True for a shadow rule: its matches are recorded, and it is never enforced. */
  readonly isShadow: boolean
}

/**
 * All steps of a preview share these budgets. The analysis of the plan has other budgets, so showing more rules changes
 * no verdict.
 */
export interface ShowingBudget {
  readonly budget: Budget
  readonly textBudget: TextBudget
}

/**
 * Returns every rule that matches or may match a call of the step. The rules keep the order in which they were saved.
 * The result includes rules that the analysis of the plan does not evaluate: shadow rules, and all rules for calls that
 * a freeze or a tool policy denies.
 */
export function shownRules(policy: CompiledPolicy, step: StepAnalysis, within: ShowingBudget): ShownRule[] {
  const found = new Map(step.rules.map((rule) => [rule.ruleId, rule]))
  const isStopped = policy.frozen !== null || step.blocked !== null
  const all = rulesOf(policy, step)
  const isOther = (id: string, isShadow: boolean): boolean => isShadow || (isStopped && !found.has(id))
  const planned = { ...step.planned, ...within }
  const calls = all.some(({ id, isShadow }) => isOther(id, isShadow))
    ? callsOf(policy.facts, planned, casesOf(planned))
    : []
  return all.flatMap((rule): ShownRule[] => {
    const { id, isShadow } = rule
    const known = found.get(id)
    if (known !== undefined) return [{ ...known, isShadow }]
    if (!isOther(id, isShadow)) return []
    const outcome = outcomeOf(rule, calls)
    return outcome.matches === no ? [] : [{ ...plannedRule(rule, outcome), isShadow }]
  })
}
