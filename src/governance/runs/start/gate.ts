import { getTool } from '../../../catalog/index.ts'
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
  /** Risk of the whole plan; the reasons of the risk also name the settings that hold the run. */
  readonly risk: Risk
  /** The run's `status_reason` while it waits for approval; null if it does not wait. */
  readonly waits: string | null
  readonly terms: ApprovalTerms
}

/** The approvers of a whole run, the votes needed, and the time until the approval expires. */
export interface ApprovalTerms {
  readonly approver: 'admin' | 'owner'
  readonly needed: number
  /** Seconds until the approval expires, if a rule sets them; null: the installation's setting applies. */
  readonly expiresAfterSeconds: number | null
}

/** The strictest terms of all rules that hold or may hold a step (docs/decisions/0095). */
function termsOf(settings: GovernanceSettings, { steps }: PlanAnalysis): ApprovalTerms {
  const rules = new Set(steps.flatMap((step) => step.rules.map(({ rule }) => rule)))
  const terms = approvalTerms([...rules])
  return {
    approver: terms.approver,
    needed: Math.max(settings.approval_threshold, terms.approvalsNeeded),
    // A rule with 0 lets a held call wait for ever, but this is not meant for the approval of a whole run. So the
    // installation's setting applies.
    expiresAfterSeconds: terms.expiresAfterSeconds === 0 ? null : terms.expiresAfterSeconds,
  }
}

/**
 * Whether the organization's settings hold a run of this plan. If approvals are off, no run is held.
 * @param bound `most`: the strictest gate that a run of the plan can get. If all inputs are known, a run gets this
 *   gate. `least`: the gate that every run of the plan gets, whatever values the unknown inputs of a preview have.
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
    tools: definition.steps.map(({ tool }) => ({
      name: tool,
      categories: getTool(tool)?.categories ?? everyCategory,
    })),
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
 * Risk of the whole plan. `most` counts all labels that a step can have, `least` only labels that a step surely has.
 */
function riskOf(definition: WorkflowDefinition, analysis: PlanAnalysis, bound: 'most' | 'least'): Risk {
  return assessRisk(
    // The analysis has the steps in the order of the definition, so both lists have the same indexes.
    definition.steps.map((step, index) => {
      const tool = getTool(step.tool)
      const analyzed = analysis.steps[index]
      return {
        name: step.tool,
        sideEffect: tool?.sideEffect ?? 'egress',
        risk: tool?.risk ?? 'high',
        labels: analyzed === undefined ? [] : countedLabels(analyzed, bound),
      }
    }),
  )
}

/**
 * The labels that count for the risk of a step. A value from the organization's memory can have any label, but only
 * labels that the plan names count. An input that a preview does not know counts with all sensitive labels, because the
 * plan of the run will name the labels of this input.
 */
function countedLabels({ labels, start }: StepAnalysis, bound: 'most' | 'least'): readonly Label[] {
  if (bound === 'least') return [...start.certain]
  return start.isOpen ? [...labels.possible, ...sensitive] : labels.possible
}

/** Reasons for the risk that apply only to some runs of the plan. Each reason names the inputs or steps that decide. */
export function possibleReasons(definition: WorkflowDefinition, { steps }: PlanAnalysis): string[] {
  const certain = new Set<string>()
  const possible = new Map<string, string>()
  for (const [index, { tool: name }] of definition.steps.entries()) {
    const step = steps[index]
    if (step === undefined || (getTool(name)?.sideEffect ?? 'egress') !== 'egress') continue
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
