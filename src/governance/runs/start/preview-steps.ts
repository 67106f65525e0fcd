import { Budget, planBudget } from '../../../policy/budget.ts'
import { explainMatches, openSources } from '../../../policy/plan-because.ts'
import type { Certainty, PlannedRule, StepAnalysis } from '../../../policy/plan.ts'
import { maybe, no, type Tri } from '../../../policy/tri.ts'
import { rank, type Label, type SideEffect, type Verdict } from '../../../policy/types.ts'
import type { ToolStanding } from '../../tools/connections.ts'

export interface PreviewedStep extends Pick<StepAnalysis, 'verdict' | 'certainty'> {
  readonly step_id: string
  readonly tool: string
  readonly side_effect: SideEffect
  readonly runs: 'certainly' | 'possibly' | 'never'
  /** The least strict verdict that the step can get. */
  readonly at_least: Verdict
  readonly labels: {
    readonly definite: readonly Label[]
    readonly possible: readonly Label[]
    /** Steps and inputs that can bring further labels that are not declared. */
    readonly others_from: readonly string[]
    readonly left_out: number
  }
  readonly rules: readonly {
    readonly rule_id: string
    readonly name: string
    readonly verdict: Verdict
    readonly certainty: Certainty
    readonly because: string
  }[]
  readonly rules_left_out: number
  /** How a tool policy denies the call; null if none does. */
  readonly role_policy: {
    readonly verdict: 'deny'
    readonly certainty: Certainty
    readonly reason: string
    readonly explanation: string
  } | null
  readonly connected: boolean
  readonly available: boolean
  readonly unavailable_because: string | null
}

/** The most rules and the most labels that all steps together show, so that an answer has a bounded size. */
const [mostRules, mostLabels] = [10_000, 50_000]

/** The steps of an analysis as a preview shows them. If there are many steps, each shows fewer rules and labels. */
export function viewSteps(
  steps: readonly StepAnalysis[],
  standingOf: (tool: string) => ToolStanding,
): PreviewedStep[] {
  const budget = new Budget(planBudget)
  const share = (most: number, least: number): number => Math.max(least, Math.floor(most / steps.length))
  const most = { rules: share(mostRules, 10), labels: share(mostLabels, 50) }
  return steps.map((step) => {
    const { connected, unavailable } = standingOf(step.tool)
    const rules = decidingFirst(step.rules, most.rules)
    const because = explainMatches(step, rules, budget)
    return {
      step_id: step.stepId,
      tool: step.tool,
      side_effect: step.sideEffect,
      runs: runsWords(step.runs),
      verdict: step.verdict,
      certainty: step.certainty,
      at_least: step.definiteVerdict,
      labels: labelsOf(step, most.labels),
      rules: rules.map(({ ruleId, name, verdict, certainty }, index) => ({
        rule_id: ruleId,
        name,
        verdict,
        certainty,
        because: because[index] ?? '',
      })),
      rules_left_out: step.rules.length - rules.length,
      role_policy: policyOf(step),
      connected,
      available: unavailable === null,
      unavailable_because: unavailable,
    }
  })
}

function runsWords(runs: Tri): PreviewedStep['runs'] {
  if (runs === no) return 'never'
  return runs === maybe ? 'possibly' : 'certainly'
}

/** At most `most` rules: certain rules first, then the strictest. The result keeps the rules' original order. */
function decidingFirst(rules: readonly PlannedRule[], most: number): readonly PlannedRule[] {
  if (rules.length <= most) return rules
  const weight = ({ certainty, verdict }: PlannedRule): number =>
    rank[verdict] + (certainty === 'definite' ? 10 : 0)
  const kept = new Set(rules.toSorted((a, b) => weight(b) - weight(a)).slice(0, most))
  return rules.filter((rule) => kept.has(rule))
}

function labelsOf(step: StepAnalysis, most: number): PreviewedStep['labels'] {
  const { definite, possible } = step.labels
  const hidden = (labels: readonly Label[]): number => Math.max(0, labels.length - most)
  return {
    definite: definite.slice(0, most),
    possible: possible.slice(0, most),
    others_from: openSources(step).slice(0, most),
    left_out: hidden(definite) + hidden(possible),
  }
}

function policyOf({ blocked }: StepAnalysis): PreviewedStep['role_policy'] {
  if (blocked === null) return null
  const { certainty, reason, explanation } = blocked
  return { verdict: 'deny', certainty, reason, explanation }
}
