import { Budget, planBudget } from './budget.ts'
import type { CompiledPolicy, CompiledRule } from './compile.ts'
import { effectOf } from './decide.ts'
import { knownLabels, type LabelSets, type Origins } from './label-sets.ts'
import {
  type Planned,
  casesOf,
  computedBy,
  labelledInputsOf,
  runsOf,
  sourcesOf,
  type Case,
  type Outcome,
  type PlannedCall,
  type Running,
  callsOf,
  isDefinite,
  outcomeOf,
  planExpressions,
} from './plan-cases.ts'
import { AtStart, type StartLabels } from './plan-start-labels.ts'
import { isUnknownInput, type Plan, type PlanStep } from './plan-types.ts'
import { inputSource, TextBudget } from './templates.ts'
import type { Blocked, CallOfTool, Refusal } from './tool-access.ts'
import { type Tri, least, maybe, no, not, yes } from './tri.ts'
import { type Label, type Verdict, stricter } from './types.ts'
import type { Partial } from './values.ts'

export type Certainty = 'definite' | 'possible'

export interface PlannedRule {
  readonly ruleId: string
  readonly name: string
  readonly verdict: Verdict
  readonly certainty: Certainty
  /** The explanations of plan-because.ts need this rule and its outcome. */
  readonly rule: CompiledRule
  readonly outcome: Outcome
}

export interface StepAnalysis extends Pick<PlanStep, 'tool' | 'sideEffect' | 'destination'> {
  readonly stepId: string
  /** The strictest possible verdict. If `certainty` is `definite`, no other verdict is possible. */
  readonly verdict: Verdict
  readonly certainty: Certainty
  /** The least strict possible verdict. A skipped step counts as allowed. */
  readonly definiteVerdict: Verdict
  /** With `for_each`, the step runs if it runs for at least one item. */
  readonly runs: Tri
  /** The labels of the step's inputs. */
  readonly labels: { readonly definite: readonly Label[]; readonly possible: readonly Label[] }
  /**
   * In the order in which they were saved. Calls that a freeze or a tool policy certainly denies are left
   * out; for them, a preview evaluates the rules in preview-rules.ts.
   */
  readonly rules: readonly PlannedRule[]
  /** For the time when the run starts, e.g. for the risk of the run. */
  readonly start: StartLabels
  /** Null if certainly no call is denied. The roles of the requester and of the step's authors count. */
  readonly blocked: (Blocked & { readonly certainty: Certainty }) | null
  readonly planned: Planned
  /** Only for a plan with `mocks`. */
  readonly cases?: readonly Case[]
}

export interface PlanAnalysis {
  readonly verdict: Verdict
  /** True for a freeze, or if a step is denied for all possible values of its unknown parts. */
  readonly definitelyDenied: boolean
  /**
   * Null if the run is not refused. `isBlocked`: a tool policy denies the step, and not a rule.
   * `lacksApprovals`: a rule requires an approval, but approvals are off. `isTolerated`: the step has
   * `on_error: continue`.
   */
  readonly deniedBy: {
    readonly stepId: string
    readonly ruleName: string
    /** null: a freeze or a tool policy denies the step. */
    readonly ruleId: string | null
    readonly isBlocked: boolean
    readonly lacksApprovals: boolean
    readonly isTolerated: boolean
  } | null
  readonly steps: readonly StepAnalysis[]
}

/**
 * Guarantee: for all possible values of the unknown parts, the verdict of each step lies between
 * `definiteVerdict` and `verdict`, for calls within the comparison budget. All steps share one budget. Once
 * it is used up, every rule with conditions "may match". Text beyond `mostResolvedText` is unknown. Keeps the
 * order of the plan. Never throws.
 */
export function analyzePlan(policy: CompiledPolicy, plan: Plan, refuses: Refuses = () => null): PlanAnalysis {
  // The labels of each source. The key is the id of a step, or the `inputSource` of an input.
  const outputs = new Map(
    [...(plan.inputLabels ?? [])].map(
      ([name, labels]) =>
        [inputSource(name), { ...knownLabels(labels), isOpen: isUnknownInput(plan, name) }] as const,
    ),
  )
  const atStart = new AtStart(plan)
  const skipped = new Set<string>()
  const computed = new Map<string, Partial>()
  const runsOfSteps = new Map<string, Tri>()
  const budget = new Budget(planBudget)
  const textBudget = new TextBudget()
  const expressions = new Budget(planExpressions)
  const analyses = new Map<string, StepAnalysis>()
  for (const step of inOrder(plan.steps)) {
    const sources = [...step.dependsOn, ...labelledInputsOf(step, plan)]
    const labels = unite(sources, outputs, budget)
    const paramSources = sourcesOf(step, plan)
    const origins = originsOf(paramSources, outputs, budget)
    const planned: Planned = {
      step,
      plan,
      sources,
      paramSources,
      outputs,
      labels,
      origins,
      start: atStart.of({ sources, labels, budget }),
      atStart,
      skipped,
      passedOver: passedOver(step, runsOfSteps),
      computed,
      budget,
      textBudget,
      expressions,
    }
    const cases = casesOf(planned)
    if (cases.length === 0) skipped.add(step.id)
    const mock = cases.length === 0 ? undefined : plan.mocks?.get(step.id)
    const output = mock ?? computedBy(step, cases)
    if (output !== undefined) computed.set(step.id, output)
    const runs = runsOf(cases)
    // The items of a list can be none, and then the step completes.
    runsOfSteps.set(step.id, step.forEach === undefined || runs === yes ? runs : maybe)
    const calls = callsOf(policy.facts, planned, cases)
    const analysis = analyzeStep(policy, planned, { runs, calls }, refuses)
    analyses.set(step.id, plan.mocks === undefined ? analysis : { ...analysis, cases })
    outputs.set(step.id, outputLabels(policy, planned, { runs, calls }))
  }
  const steps = plan.steps.flatMap((step) => analyses.get(step.id) ?? [])
  const certain = steps.find((step) => step.definiteVerdict === 'deny')
  const denied = certain ?? (policy.frozen === null ? undefined : firstFrozen(steps))
  return {
    verdict: steps.reduce<Verdict>((worst, step) => stricter(worst, step.verdict), 'allow'),
    definitelyDenied: denied !== undefined,
    deniedBy: denied === undefined ? null : deniedBy(denied, policy, plan),
    steps,
  }
}

function passedOver({ dependsOn, skipsWithOthers }: PlanStep, runs: ReadonlyMap<string, Tri>): Tri {
  if (skipsWithOthers !== true || dependsOn.length === 0) return no
  return dependsOn.reduce<Tri>((all, id) => least(all, not(runs.get(id) ?? maybe)), yes)
}

/** A freeze refuses every run (docs/decisions/0207). */
const firstFrozen = (steps: readonly StepAnalysis[]): StepAnalysis | undefined =>
  steps.find((step) => step.verdict === 'deny') ?? steps[0]

function deniedBy(denied: StepAnalysis, policy: CompiledPolicy, plan: Plan): PlanAnalysis['deniedBy'] {
  const certain = denied.rules.filter((rule) => rule.certainty === 'definite')
  const deciding =
    certain.find((rule) => rule.verdict === 'deny') ??
    certain.find((rule) => rule.verdict === 'require_approval')
  const step = plan.steps.find((each) => each.id === denied.stepId)
  const blocked = denied.blocked?.certainty === 'definite' ? denied.blocked : null
  const reason = blocked?.reason ?? deciding?.name ?? 'several rules together'
  return {
    stepId: denied.stepId,
    ruleName: policy.frozen === null ? reason : 'organization frozen',
    ruleId: policy.frozen === null && blocked === null ? (deciding?.ruleId ?? null) : null,
    isBlocked: policy.frozen === null && blocked !== null,
    lacksApprovals:
      policy.frozen === null && !policy.approvalsEnabled && deciding?.verdict === 'require_approval',
    isTolerated: step?.onError === 'continue',
  }
}

/** Null if they do not refuse it. `budget` is the budget of the whole plan. */
export type Refuses = (
  call: Omit<CallOfTool, 'role' | 'authorRoles'> & { readonly stepId: string },
  budget: Budget,
) => Refusal | null

interface Bounds {
  definite: Verdict
  possible: Verdict
}

function analyzeStep(
  policy: CompiledPolicy,
  planned: Planned,
  { runs, calls }: Running,
  refuses: Refuses,
): StepAnalysis {
  const { step, labels } = planned
  const bounds: Bounds = { definite: 'allow', possible: 'allow' }
  const deny = (isCertain: boolean): void => {
    bounds.possible = 'deny'
    if (isCertain) bounds.definite = 'deny'
  }
  if (policy.frozen !== null && runs !== no) deny(runs === yes)
  const { blocked, open } =
    policy.frozen === null ? refusalsOf(step, calls, refuses) : { blocked: null, open: [] }
  if (blocked !== null) deny(blocked.certainty === 'definite')
  const rules = matchingRules(policy, planned, open, bounds)
  return {
    stepId: step.id,
    tool: step.tool,
    sideEffect: step.sideEffect,
    destination: step.destination,
    runs,
    verdict: bounds.possible,
    certainty: bounds.definite === bounds.possible ? 'definite' : 'possible',
    definiteVerdict: bounds.definite,
    labels: { definite: [...labels.definite].sort(), possible: [...labels.possible].sort() },
    start: planned.start,
    rules,
    blocked,
    planned,
  }
}

/** `open`: the calls that are not certainly denied. Rules are evaluated only for these. */
function refusalsOf(
  { id: stepId, tool, sideEffect }: PlanStep,
  calls: readonly PlannedCall[],
  refuses: Refuses,
): { blocked: StepAnalysis['blocked']; open: readonly PlannedCall[] } {
  let blocked: StepAnalysis['blocked'] = null
  const open = calls.filter(({ occurs, given, subject }) => {
    if (tool === null || sideEffect === null) return true
    const refusal = refuses({ stepId, tool, sideEffect, params: given }, subject.budget)
    if (refusal === null) return true
    const { reason, explanation, isCertain } = refusal
    const certainty = isCertain && occurs === yes ? 'definite' : 'possible'
    if (blocked === null || (certainty === 'definite' && blocked.certainty === 'possible'))
      blocked = { reason, explanation, certainty }
    return !isCertain
  })
  return { blocked, open }
}

/** Also makes `bounds` at least as strict as the verdicts of these rules. */
function matchingRules(
  policy: CompiledPolicy,
  { step }: Planned,
  calls: readonly PlannedCall[],
  bounds: Bounds,
): PlannedRule[] {
  const rules: PlannedRule[] = []
  if (calls.length === 0) return rules
  for (const rule of rulesOf(policy, step)) {
    if (rule.isShadow) continue
    const outcome = outcomeOf(rule, calls)
    // If the analysis runs out of budget, the call in the run may run out of budget too. Such a call is denied.
    if (outcome.isCut) bounds.possible = 'deny'
    if (outcome.matches === no) continue
    const effect = effectOf(policy, rule.verdict)
    bounds.possible = stricter(bounds.possible, effect)
    if (isDefinite(outcome)) bounds.definite = stricter(bounds.definite, effect)
    rules.push(plannedRule(rule, outcome))
  }
  return rules
}

export const rulesOf = (
  policy: CompiledPolicy,
  { tool, sideEffect }: Pick<PlanStep, 'tool' | 'sideEffect'>,
): readonly CompiledRule[] =>
  tool === null || sideEffect === null ? [] : policy.rulesFor(tool, sideEffect, 'workflows')

export function plannedRule(rule: CompiledRule, outcome: Outcome): PlannedRule {
  const certainty = isDefinite(outcome) ? 'definite' : 'possible'
  return { ruleId: rule.id, name: rule.name, verdict: rule.verdict, certainty, rule, outcome }
}

/** Steps of a cycle, which no saved definition has, come last. */
function inOrder(steps: readonly PlanStep[]): PlanStep[] {
  const byId = new Map(steps.map((step) => [step.id, step]))
  const waiting = new Map(steps.map((step) => [step.id, step.dependsOn.filter((id) => byId.has(id)).length]))
  const dependants = Map.groupBy(
    steps.flatMap((step) => step.dependsOn.map((id) => ({ id, step }))),
    (edge) => edge.id,
  )
  const ordered = steps.filter((step) => waiting.get(step.id) === 0)
  for (const step of ordered) {
    waiting.delete(step.id)
    for (const { step: next } of dependants.get(step.id) ?? []) {
      const left = (waiting.get(next.id) ?? 0) - 1
      waiting.set(next.id, left)
      if (left === 0) ordered.push(next)
    }
  }
  return [...ordered, ...steps.filter((step) => waiting.has(step.id))]
}

/** The labels of a value if nothing is known about them. */
const anything: LabelSets = { definite: new Set(), possible: new Set(), isOpen: true }

/** Each copied label costs one comparison. Once the budget is used up, any label is possible. */
export function unite(
  ids: readonly string[],
  outputs: ReadonlyMap<string, LabelSets>,
  budget: Budget,
): LabelSets {
  const sets = ids.map((id) => outputs.get(id) ?? anything)
  const size = sets.reduce((sum, set) => sum + set.definite.size + set.possible.size, 0)
  if (size > 0 && !budget.affords(size)) return anything
  return {
    definite: new Set(sets.flatMap((set) => [...set.definite])),
    possible: new Set(sets.flatMap((set) => [...set.possible])),
    isOpen: sets.some((set) => set.isOpen),
  }
}

/** By the dotted path of the parameter. */
export function originsOf(
  sources: ReadonlyMap<string, readonly string[]>,
  outputs: ReadonlyMap<string, LabelSets>,
  budget: Budget,
): Origins {
  return new Map([...sources].map(([path, ids]) => [path, unite(ids, outputs, budget)] as const))
}

/** No label is definite if the step may be skipped, run for no item, or fail with `on_error: continue`. */
export function outputLabels(policy: CompiledPolicy, planned: Planned, { runs, calls }: Running): LabelSets {
  const { step, labels, budget, atStart } = planned
  if (runs === no) {
    const passedOn = { definite: new Set<Label>(), possible: labels.possible, isOpen: labels.isOpen }
    atStart.add(planned, passedOn, [])
    return passedOn
  }
  const made: { labels: readonly Label[]; occurs: Tri }[] = [{ labels: step.outputLabels, occurs: runs }]
  const definite = new Set([...labels.definite, ...step.outputLabels])
  const possible = new Set([...labels.possible, ...step.outputLabels])
  let isOpen = labels.isOpen || step.bringsOwnLabels === true
  for (const rule of step.tool === null ? [] : policy.labelRulesFor(step.tool)) {
    const outcome = outcomeOf(rule, calls)
    if (outcome.matches === no) continue
    if (!budget.affords(rule.addLabels.length)) {
      isOpen = true
      break
    }
    for (const label of rule.addLabels) {
      possible.add(label)
      if (isDefinite(outcome)) definite.add(label)
    }
    if (outcome.matches === yes) made.push({ labels: rule.addLabels, occurs: outcome.occurs })
  }
  const isCertain = runs === yes && step.onError !== 'continue'
  const output = { definite: isCertain ? definite : new Set<Label>(), possible, isOpen }
  atStart.add(planned, output, made)
  return output
}
