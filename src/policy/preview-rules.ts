import type { Budget } from './budget.ts'
import type { CompiledPolicy } from './compile.ts'
import { type PlannedRule, type StepAnalysis, plannedRule, rulesOf } from './plan.ts'
import { casesOf, callsOf, outcomeOf } from './plan-cases.ts'
import type { TextBudget } from './templates.ts'
import { no } from './tri.ts'

export interface ShownRule extends PlannedRule {
  /** Its matches are recorded, and it is never enforced. */
  readonly isShadow: boolean
}

/** Shared by all steps of a preview, and apart from the plan's own, so showing more rules changes no verdict. */
export interface ShowingBudget {
  readonly budget: Budget
  readonly textBudget: TextBudget
}

/** In the order of saving, also shadow rules, and those behind a freeze or a tool policy. */
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
