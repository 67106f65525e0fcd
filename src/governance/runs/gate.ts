import { getTool } from '../../catalog/index.ts'
import type { Risk } from '../../db/schema/runs.ts'
import { everyCategory, gateReasons } from '../../policy/gates.ts'
import type { PlanAnalysis } from '../../policy/plan.ts'
import { assessRisk, isAtLeast } from '../../policy/risk.ts'
import type { GovernanceSettings } from '../settings.ts'
import type { FrozenVersion } from './version-cache.ts'

/** What a person is asked before a run starts, if anybody is. */
export interface RunGate {
  /** Of the whole plan; its reasons name the settings that hold the run too. */
  readonly risk: Risk
  /** Why the run waits for approval, as its `status_reason` says it; null: it does not wait. */
  readonly waits: string | null
}

/** Whether the organization's settings hold a run of this plan. With approvals off they hold none. */
export function gateOf(settings: GovernanceSettings, frozen: FrozenVersion, analysis: PlanAnalysis): RunGate {
  const risk = riskOf(frozen, analysis)
  const { approvals_enabled: isEnabled, approval_required_from: from } = settings
  if (!isEnabled) return { risk, waits: null }
  const isRisky = from !== null && isAtLeast(risk.level, from)
  const flagged = gateReasons(settings, {
    categories: frozen.definition.categories ?? [],
    // What the catalogue has lost may have been anything.
    tools: frozen.definition.steps.map(({ tool }) => ({
      name: tool,
      categories: getTool(tool)?.categories ?? everyCategory,
    })),
  })
  if (!isRisky && flagged.length === 0) return { risk, waits: null }
  const why = [...(isRisky ? [`its risk is ${risk.level} (${risk.reasons.join('; ')})`] : []), ...flagged]
  return {
    risk: { level: risk.level, reasons: [...risk.reasons, ...flagged] },
    waits: `the run waits for approval: ${why.join('; ')}`,
  }
}

/** Risk of the whole plan, on every label its steps can meet. */
function riskOf(frozen: FrozenVersion, analysis: PlanAnalysis): Risk {
  return assessRisk(
    frozen.definition.steps.map((step) => {
      const tool = getTool(step.tool)
      const labels = analysis.steps.find((each) => each.stepId === step.id)?.labels
      return {
        name: step.tool,
        sideEffect: tool?.sideEffect ?? 'write',
        risk: tool?.risk ?? 'high',
        // A memory value can carry any label: for a score, only those the plan can name count.
        labels: [...(labels?.definite ?? []), ...(labels?.possible ?? [])],
      }
    }),
  )
}
