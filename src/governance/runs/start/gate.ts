import { getTool } from '../../../tools/index.ts'
import type { WorkflowDefinition } from '../../../contract/definition.ts'
import type { Risk } from '../../../db/schema/runs.ts'
import { everyCategory, gateReasons, type GovernanceSettings } from '../../../policy/settings.ts'
import { approvalTerms } from '../../../policy/decide.ts'
import { namesOfDeciders } from '../../../policy/plan-because.ts'
import type { PlanAnalysis, StepAnalysis } from '../../../policy/plan.ts'
import { assessRisk, isAtLeast, sendsOut, sensitive } from '../../../policy/risk.ts'
import { peopleFor, roleOf, seatWords, withThreshold, type Seat } from '../../../policy/seats.ts'
import type { Label } from '../../../policy/types.ts'

export interface RunGate {
  /** For the whole plan. If settings require an approval, the reasons also name these settings. */
  readonly risk: Risk
  /** The run's `status_reason`. Is null if the run does not wait. */
  readonly waits: string | null
  readonly terms: ApprovalTerms
}

export interface ApprovalTerms {
  readonly seats: readonly Seat[]
  /** The least number of people. */
  readonly needed: number
  /** Is null if the installation's setting applies. */
  readonly expiresAfterSeconds: number | null
  readonly remindAfterSeconds: number | null
}

/** The strictest terms of all rules that require or may require an approval (docs/decisions/0095). */
function termsOf(settings: GovernanceSettings, { steps }: PlanAnalysis): ApprovalTerms {
  const rules = new Set(steps.flatMap((step) => step.rules.map(({ rule }) => rule)))
  const terms = approvalTerms([...rules])
  return {
    seats: withThreshold(terms.seats, settings.approval_threshold),
    needed: Math.max(settings.approval_threshold, peopleFor(terms.seats)),
    // A held call may wait for ever (0), but not a whole run: the installation's setting applies there.
    expiresAfterSeconds: terms.expiresAfterSeconds === 0 ? null : terms.expiresAfterSeconds,
    remindAfterSeconds: terms.remindAfterSeconds,
  }
}

/**
 * `most`: the strictest gate that a run can get, and the exact gate if all inputs are known. `least`: the
 * gate that every run gets at least, whatever the unknown inputs are. If approvals are off, there is no gate.
 */
export function gateOf(
  settings: GovernanceSettings,
  definition: WorkflowDefinition,
  analysis: PlanAnalysis,
  bound: 'most' | 'least' = 'most',
): RunGate {
  const risk = riskOf(definition, analysis, bound)
  const terms = termsOf(settings, analysis)
  const { approvals_enabled: isEnabled, approval_required_from: from } = settings
  if (!isEnabled) return { risk, terms, waits: null }
  const isRisky = from !== null && isAtLeast(risk.level, from)
  const flagged = gateReasons(settings, {
    categories: definition.categories ?? [],
    // A tool that is no longer in the catalogue counts as a tool of every category.
    tools: definition.steps.flatMap(({ tool: name }) =>
      name === undefined ? [] : [{ name, categories: getTool(name)?.categories ?? everyCategory }],
    ),
  })
  if (!isRisky && flagged.length === 0) return { risk, terms, waits: null }
  // A low risk has no reasons of its own, so the reason is the setting.
  const reasons =
    isRisky && risk.reasons.length === 0 ? [`\`approval_required_from\` is \`${from}\``] : risk.reasons
  const why = [...(isRisky ? [`its risk is ${risk.level} (${reasons.join('; ')})`] : []), ...flagged]
  return {
    risk: { level: risk.level, reasons: [...reasons, ...flagged] },
    terms,
    waits: `the run waits for approval${byWhom(terms.seats)}: ${why.join('; ')}`,
  }
}

/** Nothing for the usual case. */
const byWhom = (seats: readonly Seat[]): string =>
  seats.length === 1 && roleOf(seats) === 'admin' ? '' : ` by ${seatWords(seats)}`

/** `most` uses every label that can count when a run starts, `least` only labels that surely count then. */
function riskOf(definition: WorkflowDefinition, analysis: PlanAnalysis, bound: 'most' | 'least'): Risk {
  return assessRisk(
    // The analysis has the steps in the order of the definition, so both lists have the same indexes.
    definition.steps.flatMap(({ tool: name }, index) => {
      if (name === undefined) return []
      const tool = getTool(name)
      const analyzed = analysis.steps[index]
      return {
        name,
        sideEffect: analyzed?.sideEffect ?? 'egress',
        risk: tool?.risk ?? 'high',
        labels: analyzed === undefined ? [] : countedLabels(analyzed, bound),
      }
    }),
  )
}

/**
 * A value from the memory can have any label, but only labels that the plan names count. For an unknown
 * input, and once the budget of the analysis is used up, all sensitive labels count.
 */
function countedLabels({ labels, start }: StepAnalysis, bound: 'most' | 'least'): readonly Label[] {
  if (bound === 'least') return [...start.certain]
  return start.isOpen ? [...labels.possible, ...sensitive] : labels.possible
}

/** These apply only to some runs. Each reason names the inputs or steps that decide whether it applies. */
export function possibleReasons(definition: WorkflowDefinition, { steps }: PlanAnalysis): string[] {
  const certain = new Set<string>()
  const possible = new Map<string, string>()
  for (const [index, { tool: name }] of definition.steps.entries()) {
    const step = steps[index]
    if (step?.sideEffect !== 'egress') continue
    for (const label of sensitive) {
      const reason = `\`${name}\` ${sendsOut(label)}`
      if (step.start.certain.has(label)) certain.add(reason)
      else if (countedLabels(step, 'most').includes(label) && !possible.has(reason)) {
        const deciders = namesOfDeciders(step, label)
        possible.set(reason, `${reason}${deciders === '' ? '' : `, if ${deciders} brings this label`}`)
      }
    }
  }
  return [...possible].flatMap(([reason, sentence]) => (certain.has(reason) ? [] : [sentence]))
}
