import { Budget, planBudget } from '../../../policy/budget.ts'
import { explainMatches, openSources } from '../../../policy/plan-because.ts'
import { explainFrozen } from '../../../policy/decide.ts'
import { list, quote } from '../../../policy/text.ts'
import type { Certainty, StepAnalysis } from '../../../policy/plan.ts'
import { type ShownRule, shownRules } from '../../../policy/preview-rules.ts'
import { TextBudget } from '../../../policy/templates.ts'
import type { ToolAccess } from '../../../policy/tool-access.ts'
import { maybe, no, type Tri } from '../../../policy/tri.ts'
import { isKnown, runsOf, type Case } from '../../../policy/plan-cases.ts'
import { Hole, isList, type Partial } from '../../../policy/values.ts'
import { isObject } from '../../../contract/json.ts'
import {
  rank,
  type Json,
  type JsonObject,
  type Label,
  type Role,
  type SideEffect,
  type Verdict,
} from '../../../policy/types.ts'
import type { LoadedPolicy } from '../../audit/policy-cache.ts'
import type { ToolStanding } from '../../tools/connections.ts'

export interface PreviewedStep extends Pick<StepAnalysis, 'verdict' | 'certainty'> {
  readonly step_id: string
  readonly kind: string
  /** Null: the step calls no tool. */
  readonly tool: string | null
  readonly side_effect: SideEffect | null
  /** What a step that calls no tool waits for, in the words of its definition. Null: it waits for nothing. */
  readonly waits: string | null
  /** The host to which the call goes with the connection of now; null if it stays here, or without a connection. */
  readonly destination: string | null
  readonly runs: 'certainly' | 'possibly' | 'never'
  /** The least strict verdict that the step can get. */
  readonly at_least: Verdict
  readonly labels: {
    readonly definite: readonly Label[]
    readonly possible: readonly Label[]
    /** The sources whose values can have any label: steps that read the memory, and unknown inputs. */
    readonly others_from: readonly string[]
    readonly left_out: number
  }
  readonly rules: readonly {
    readonly rule_id: string
    readonly name: string
    readonly verdict: Verdict
    readonly certainty: Certainty
    readonly because: string
    /** Such a rule is recorded and never enforced. */
    readonly shadow: boolean
  }[]
  readonly rules_left_out: number
  /** Is null if no tool policy denies or may deny the call. */
  readonly role_policy: {
    readonly verdict: 'deny'
    readonly certainty: Certainty
    readonly reason: string
    readonly explanation: string
  } | null
  /** Is null if the organization is not frozen, or if the step never runs. */
  readonly frozen: string | null
  /** Limits of tool policies that only the call itself can check. */
  readonly checked_during_call: readonly string[]
  readonly connected: boolean
  readonly available: boolean
  readonly unavailable_because: string | null
  /** With `mocks`: what the step would do. Is null without them. */
  readonly resolved: ResolvedStep | null
}

export interface ResolvedStep {
  /** Whether `when` holds; null: it depends on what is not known. */
  readonly condition: boolean | null
  /** The parameters of the call, or of each item. What is not known stays as it is written. */
  readonly calls: readonly JsonObject[]
  readonly left_out: number
}

/** For all steps together, so that the size of an answer is bounded. */
const [mostRules, mostLabels] = [10_000, 50_000]

export interface Viewed {
  readonly policy: Pick<LoadedPolicy, 'compiled' | 'toolAccess'>
  readonly role: Role
  /** By the id of the step. */
  readonly authorRoles: ReadonlyMap<string, readonly Role[]>
  readonly standingOf: (tool: string) => ToolStanding
  readonly kindOf: (stepId: string) => Pick<PreviewedStep, 'kind' | 'waits'>
}

/** For a step without a tool. */
const usable: ToolStanding = { connected: true, unavailable: null }

/** If there are many steps, each step has fewer rules and labels. */
export function viewSteps(steps: readonly StepAnalysis[], viewed: Viewed): PreviewedStep[] {
  const explaining = { budget: new Budget(planBudget), textBudget: new TextBudget() }
  const others = { budget: new Budget(planBudget), textBudget: new TextBudget() }
  const share = (most: number, least: number): number => Math.max(least, Math.floor(most / steps.length))
  const most = { rules: share(mostRules, 10), labels: share(mostLabels, 50) }
  const { compiled, toolAccess } = viewed.policy
  const rolesOf = (stepId: string): Role[] => [viewed.role, ...(viewed.authorRoles.get(stepId) ?? [])]
  const texts = { left: mostResolvedShown }
  return steps.map((step) => {
    const { connected, unavailable } = step.tool === null ? usable : viewed.standingOf(step.tool)
    const all = shownRules(compiled, step, others)
    const rules = decidingFirst(all, most.rules)
    const because = explainMatches(step, rules, explaining)
    return {
      step_id: step.stepId,
      ...viewed.kindOf(step.stepId),
      tool: step.tool,
      side_effect: step.sideEffect,
      destination: step.destination ?? null,
      runs: runsWords(step.runs),
      verdict: step.verdict,
      certainty: step.certainty,
      at_least: step.definiteVerdict,
      labels: labelsOf(step, most.labels),
      rules: rules.map(({ ruleId, name, verdict, certainty, isShadow }, index) => ({
        rule_id: ruleId,
        name,
        verdict,
        certainty,
        because: because[index] ?? '',
        shadow: isShadow,
      })),
      rules_left_out: all.length - rules.length,
      role_policy: policyOf(step),
      frozen: compiled.frozen === null || step.runs === no ? null : explainFrozen(compiled.frozen),
      checked_during_call:
        step.runs === no || step.tool === null
          ? []
          : laterLimits(step.tool, toolAccess, rolesOf(step.stepId)),
      connected,
      available: unavailable === null,
      unavailable_because: unavailable,
      resolved: step.cases === undefined ? null : resolvedOf(step.cases, step.planned.step.params, texts),
    }
  })
}

/** Characters of JSON, for all steps together; and calls of one step. */
const [mostResolvedShown, mostCalls] = [1_000_000, 20]

function resolvedOf(cases: readonly Case[], written: JsonObject, texts: { left: number }): ResolvedStep {
  const calls: JsonObject[] = []
  for (const { params } of cases.slice(0, mostCalls)) {
    const shown = shownOf(params, written) as JsonObject
    texts.left -= JSON.stringify(shown).length
    if (texts.left < 0) break
    calls.push(shown)
  }
  const runs = runsOf(cases)
  return { condition: runs === maybe ? null : runs !== no, calls, left_out: cases.length - calls.length }
}

/** An unknown part stays as it is written. */
function shownOf(value: Partial, written: Json | undefined): Json {
  if (isKnown(value)) return value
  if (isList(value))
    return value.map((each, index) =>
      shownOf(each, Array.isArray(written) ? (written as Json[])[index] : undefined),
    )
  if (value instanceof Hole) return written ?? null
  const fields = isObject(written) ? written : {}
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, shownOf(each, fields[name])]))
}

/** Only the service knows who can read the place, and the size of the output is known after the call. */
function laterLimits(tool: string, access: ToolAccess, roles: readonly Role[]): string[] {
  const audience = access.audience(tool, roles)
  const only = audience.map((domains) => list(domains.map(quote), 'and'))
  const largest = access.largestOutput(tool, roles)
  return [
    ...only.map(
      (domains) =>
        `The service is asked who can read what \`${tool}\` writes to: only people in ${domains} may (\`allowed_domains\`).`,
    ),
    ...(largest === null
      ? []
      : [`An output of more than ${largest} KiB as JSON is refused (\`max_response_size_kb\`).`]),
  ]
}

function runsWords(runs: Tri): PreviewedStep['runs'] {
  if (runs === no) return 'never'
  return runs === maybe ? 'possibly' : 'certainly'
}

/** Enforced rules come first, then certain matches, then the strictest. Keeps the original order. */
function decidingFirst(rules: readonly ShownRule[], most: number): readonly ShownRule[] {
  if (rules.length <= most) return rules
  const weight = ({ certainty, verdict, isShadow }: ShownRule): number =>
    rank[verdict] + (certainty === 'definite' ? 10 : 0) + (isShadow ? 0 : 100)
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
