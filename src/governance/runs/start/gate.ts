import { getTool } from '../../../tools/index.ts'
import type { WorkflowDefinition } from '../../../contract/definition.ts'
import type { Risk } from '../../../db/schema/runs.ts'
import { everyCategory, gateReasons } from '../../../policy/gates.ts'
import { approvalTerms } from '../../../policy/decide.ts'
import { namesOfDeciders } from '../../../policy/plan-because.ts'
import type { PlanAnalysis, StepAnalysis } from '../../../policy/plan.ts'
import { assessRisk, isAtLeast, sendsOut, sensitive } from '../../../policy/risk.ts'
import type { GovernanceSettings } from '../../../policy/settings.ts'
import type { Label } from '../../../policy/types.ts'

/** Whether a run needs approval before it starts, and why. */
export interface RunGate {
  /**
   * The risk of the whole plan. If settings require an approval of the run, the reasons of the risk also name these
   * settings.
   */
  readonly risk: Risk
  /** The run's `status_reason` while the run waits for approval. Is null if the run does not wait. */
  readonly waits: string | null
  readonly terms: ApprovalTerms
}

/** The approvers of a whole run, the votes needed, and the time until the approval expires. */
export interface ApprovalTerms {
  readonly approver: 'admin' | 'owner'
  readonly needed: number
  /** Seconds until the approval expires, if a rule sets them. Is null if the installation's setting applies. */
  readonly expiresAfterSeconds: number | null
}

/**
 * Returns the strictest terms of all rules that require an approval for a step, or may require one
 * (docs/decisions/0095).
 */
function termsOf(settings: GovernanceSettings, { steps }: PlanAnalysis): ApprovalTerms {
  const rules = new Set(steps.flatMap((step) => step.rules.map(({ rule }) => rule)))
  const terms = approvalTerms([...rules])
  return {
    approver: terms.approver,
    needed: Math.max(settings.approval_threshold, terms.approvalsNeeded),
    // With 0 in a rule, a held call may wait for ever. This is not meant for the approval of a whole run, so the
    // installation's setting applies there.
    expiresAfterSeconds: terms.expiresAfterSeconds === 0 ? null : terms.expiresAfterSeconds,
  }
}

/**
 * Tells whether the organization's settings require an approval of a run of this plan, and why. If approvals are off,
 * no run needs an approval.
 * @param bound With `most`, returns the strictest gate that a run of the plan can get. If all inputs are known, every
 *   run gets this gate. With `least`, returns the gate that every run of the plan gets at least. The values of inputs
 *   that a preview does not know cannot make this gate weaker.
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
    waits: `the run waits for approval${terms.approver === 'owner' ? ' by an owner' : ''}: ${why.join('; ')}`,
  }
}

/**
 * Returns the risk of the whole plan. `most` uses every label that can count when a run of the plan starts. `least`
 * uses only labels that surely count then.
 */
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
 * Returns the labels that count for the risk of a step. A value from the organization's memory can have any label, but
 * only labels that the plan names count. For an input that a preview does not know, all sensitive labels count, because
 * the plan of the run will name the labels of this input. All sensitive labels also count if the budget of the analysis
 * is used up.
 */
function countedLabels({ labels, start }: StepAnalysis, bound: 'most' | 'least'): readonly Label[] {
  if (bound === 'least') return [...start.certain]
  return start.isOpen ? [...labels.possible, ...sensitive] : labels.possible
}

/**
 * Returns the reasons for the risk that apply only to some runs of the plan. Each reason names the inputs or steps that
 * decide whether the reason applies.
 */
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
