import type { Budget } from './budget.ts'
import type { CompiledPolicy } from './compile.ts'
import { type PlannedRule, type StepAnalysis, plannedRule } from './plan.ts'
import { casesOf } from './plan-cases.ts'
import { callsOf, outcomeOf } from './plan-outcome.ts'
import type { TextBudget } from './text-budget.ts'
import { no } from './tri.ts'

export interface ShownRule extends PlannedRule {
  /** The rule is recorded and never enforced. */
  readonly isShadow: boolean
}

/** They are shared by all steps, and are not those of the analysis, so showing more rules changes no verdict. */
export interface ShowingBudget {
  readonly budget: Budget
  readonly textBudget: TextBudget
}

/**
 * Every rule that matches or may match the calls of a step, in the order they were saved: those that the analysis
 * found, shadow rules, and rules for calls that a freeze or a tool policy denies before the rules are asked.
 */
export function shownRules(policy: CompiledPolicy, step: StepAnalysis, within: ShowingBudget): ShownRule[] {
  const found = new Map(step.rules.map((rule) => [rule.ruleId, rule]))
  const isStopped = policy.frozen !== null || step.blocked !== null
  const all = policy.rulesFor(step.tool, step.sideEffect, 'workflows')
  const isOther = (id: string, isShadow: boolean): boolean => isShadow || (isStopped && !found.has(id))
  const planned = { ...step.planned, ...within }
  const calls = all.some(({ id, isShadow }) => isOther(id, isShadow))
    ? callsOf(planned, casesOf(planned))
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
