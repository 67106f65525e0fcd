import { Budget, BudgetExceeded, planBudget } from './budget.ts'
import type { Builtins } from './builtins.ts'
import type { CompiledPolicy } from './compile.ts'
import { type Conditions, type LabelSets, type Origins, type Subject, evaluate } from './evaluate.ts'
import { type Case, type Planned, casesOf, labelledInputsOf, sourcesOf } from './plan-cases.ts'
import { inputSource } from './templates.ts'
import { TextRoom } from './text-room.ts'
import type { Blocked } from './tool-access.ts'
import { type Tri, maybe, no, yes } from './tri.ts'
import { type Json, type JsonObject, type Label, type SideEffect, type Verdict, stricter } from './types.ts'
import type { WhenOperator } from './when.ts'

export interface PlanStep {
  readonly id: string
  readonly tool: string
  readonly sideEffect: SideEffect
  /** Labels the tool declares for what it returns. */
  readonly outputLabels: readonly Label[]
  /** What it returns can carry labels that nothing declares, e.g. a remembered value's own. */
  readonly bringsOwnLabels?: boolean | undefined
  /** With templates, as in the definition. */
  readonly params: JsonObject
  /** Names of parameters in which `me` is the person who runs. */
  readonly people?: readonly string[] | undefined
  /** Every step it waits for, named or referenced. */
  readonly dependsOn: readonly string[]
  readonly when?:
    { readonly value: Json; readonly operator: WhenOperator; readonly compare?: Json | undefined } | undefined
  readonly forEach?: Json | undefined
  readonly onError?: 'fail' | 'continue' | undefined
}

export interface Plan {
  /** A DAG, in any order. */
  readonly steps: readonly PlanStep[]
  /** Known inputs, defaults filled in. */
  readonly inputs: JsonObject
  /** Whether inputs that are not given are absent (a run about to start) or unknown (a preview). */
  readonly areInputsComplete: boolean
  /** Labels that inputs carry into every step that refers to them, by name; none of a name that is not here. */
  readonly inputLabels?: ReadonlyMap<string, readonly Label[]> | undefined
  readonly uploadedFiles?: Json | undefined
  readonly builtins?: Builtins | undefined
  /** What `me` stands for; unknown before somebody runs it. */
  readonly requesterEmail?: string | undefined
}

export type Certainty = 'definite' | 'possible'

export interface PlannedRule {
  readonly ruleId: string
  readonly name: string
  readonly verdict: Verdict
  readonly certainty: Certainty
  /** One clause on why. */
  readonly because: string
}

export interface StepAnalysis extends Pick<PlanStep, 'tool' | 'sideEffect'> {
  readonly stepId: string
  /** The strictest verdict the step can get; with certainty `definite` it gets it whatever the unknown parts are. */
  readonly verdict: Verdict
  readonly certainty: Certainty
  /** The least strict one; skipped steps count as allowed. */
  readonly definiteVerdict: Verdict
  /** Labels of its inputs. */
  readonly labels: { readonly definite: readonly Label[]; readonly possible: readonly Label[] }
  /** Enforced rules that match or may match, in saved order; none where a tool policy blocks the step. */
  readonly rules: readonly PlannedRule[]
  /** Why tool policies keep this person from the step's tool; null where they do not. */
  readonly blocked: Blocked | null
}

export interface PlanAnalysis {
  readonly verdict: Verdict
  /** Some step is denied whatever the unknown parts are: the run is refused (specification, "What the service does" 6). */
  readonly definitelyDenied: boolean
  /**
   * The first such step; `isBlocked` if a tool policy denies it and no rule, `lacksApprovals` if its rule holds it and
   * approvals are off, `isTolerated` if it says `on_error: continue`.
   */
  readonly deniedBy: {
    readonly stepId: string
    readonly ruleName: string
    readonly isBlocked: boolean
    readonly lacksApprovals: boolean
    readonly isTolerated: boolean
  } | null
  readonly steps: readonly StepAnalysis[]
}

/**
 * Analyses a whole plan before it runs, three-valued: parameter parts are known, unknown or known by a prefix, labels
 * flow along the graph as definite and possible sets, and every rule matches, does not, or may. Law: whatever the
 * unknown parts turn out to be, each step's verdict lies between its definite and its possible one (for calls within
 * the comparison budget). All steps share one budget; once it is used up, rules that compare values may match, so the
 * run's own decisions decide; text beyond `mostResolvedText` is unknown. `blocks` says why a tool is denied wherever its step
 * runs. Steps are answered in the plan's order. Never throws.
 */
export function analyzePlan(
  policy: CompiledPolicy,
  plan: Plan,
  blocks: (tool: string, sideEffect: SideEffect) => Blocked | null = () => null,
): PlanAnalysis {
  // By what a value is made of: a step, or an input.
  const outputs = new Map(
    [...(plan.inputLabels ?? [])].map(([name, labels]) => [inputSource(name), known(labels)] as const),
  )
  const skipped = new Set<string>()
  const budget = new Budget(planBudget)
  const room = new TextRoom()
  const analyses = new Map<string, StepAnalysis>()
  for (const step of inOrder(plan.steps)) {
    const sources = [...step.dependsOn, ...labelledInputsOf(step, plan.inputLabels)]
    const labels = unite(sources.map((id) => outputs.get(id) ?? anything))
    const origins = originsOf(sourcesOf(step, plan.inputLabels), outputs)
    const planned: Planned = { step, plan, labels, origins, skipped, budget, room }
    const cases = casesOf(planned)
    if (cases.length === 0) skipped.add(step.id)
    analyses.set(step.id, analyzeStep(policy, planned, cases, blocks(step.tool, step.sideEffect)))
    outputs.set(step.id, outputLabels(policy, planned, cases))
  }
  const steps = plan.steps.flatMap((step) => analyses.get(step.id) ?? [])
  const denied = steps.find((step) => step.definiteVerdict === 'deny')
  return {
    verdict: steps.reduce<Verdict>((worst, step) => stricter(worst, step.verdict), 'allow'),
    definitelyDenied: denied !== undefined,
    deniedBy: denied === undefined ? null : deniedBy(denied, policy, plan),
    steps,
  }
}

function deniedBy(denied: StepAnalysis, policy: CompiledPolicy, plan: Plan): PlanAnalysis['deniedBy'] {
  const certain = denied.rules.filter((rule) => rule.certainty === 'definite')
  const deciding =
    certain.find((rule) => rule.verdict === 'deny') ??
    certain.find((rule) => rule.verdict === 'require_approval')
  const step = plan.steps.find((each) => each.id === denied.stepId)
  const reason = denied.blocked?.reason ?? deciding?.name ?? 'several rules together'
  return {
    stepId: denied.stepId,
    ruleName: policy.frozen === null ? reason : 'organization frozen',
    isBlocked: policy.frozen === null && denied.blocked !== null,
    lacksApprovals:
      policy.frozen === null && !policy.approvalsEnabled && deciding?.verdict === 'require_approval',
    isTolerated: step?.onError === 'continue',
  }
}

function analyzeStep(
  policy: CompiledPolicy,
  planned: Planned,
  cases: readonly Case[],
  blocked: Blocked | null,
): StepAnalysis {
  const { step, labels } = planned
  const decided = cases.map((each) => decideCase(policy, planned, each, blocked))
  let definite: Verdict = 'allow'
  let possible: Verdict = 'allow'
  for (const [index, found] of decided.entries()) {
    possible = stricter(possible, found.possible)
    if (cases[index]?.occurs === yes) definite = stricter(definite, found.definite)
  }
  return {
    stepId: step.id,
    tool: step.tool,
    sideEffect: step.sideEffect,
    verdict: possible,
    certainty: definite === possible ? 'definite' : 'possible',
    definiteVerdict: definite,
    labels: { definite: [...labels.definite].sort(), possible: [...labels.possible].sort() },
    rules: onceEach(decided.map(({ rules }) => rules)),
    blocked,
  }
}

/** Each rule once, as definite as some case makes it. */
function onceEach(lists: readonly (readonly PlannedRule[])[]): readonly PlannedRule[] {
  if (lists.length === 1) return lists[0] ?? []
  const reached = new Map<string, PlannedRule>()
  for (const rule of lists.flat()) {
    if (reached.get(rule.ruleId)?.certainty !== 'definite') reached.set(rule.ruleId, rule)
  }
  return [...reached.values()]
}

function decideCase(policy: CompiledPolicy, planned: Planned, each: Case, blocked: Blocked | null) {
  const { step } = planned
  const rules: PlannedRule[] = []
  if (policy.frozen !== null || blocked !== null)
    return { definite: 'deny' as const, possible: 'deny' as const, rules }
  let definite: Verdict = 'allow'
  let possible: Verdict = 'allow'
  const subject = subjectOf(planned, each)
  for (const rule of policy.rulesFor(step.tool, step.sideEffect, 'workflows')) {
    if (rule.isShadow) continue
    const matches = outcomeOf(rule, subject)
    // The call itself may turn out too large, which denies it.
    if (matches === null) possible = 'deny'
    if (matches === no) continue
    const effect = rule.verdict === 'require_approval' && !policy.approvalsEnabled ? 'deny' : rule.verdict
    possible = stricter(possible, effect)
    if (matches === yes) definite = stricter(definite, effect)
    rules.push({
      ruleId: rule.id,
      name: rule.name,
      verdict: rule.verdict,
      certainty: matches === yes && each.occurs === yes ? 'definite' : 'possible',
      because: rule.because + condition(matches ?? maybe, each.occurs),
    })
  }
  return { definite, possible, rules }
}

function condition(matches: Tri, occurs: Tri): string {
  if (matches === maybe) return ', if what is only known during the run turns out so'
  return occurs === maybe ? ', if the step runs at all' : ''
}

function originsOf(sources: ReturnType<typeof sourcesOf>, outputs: ReadonlyMap<string, LabelSets>): Origins {
  return new Map(
    [...sources].map(([path, ids]) => [path, unite(ids.map((id) => outputs.get(id) ?? anything))] as const),
  )
}

function subjectOf(planned: Planned, each: Case): Subject {
  const { labels, origins, budget } = planned
  return { params: each.params, labels, origins, budget, found: new Map() }
}

/**
 * Labels of what a step hands on. A step that may be skipped, run for no item, or fail with `on_error: continue` may
 * hand on nothing, so none of them is definite.
 */
function outputLabels(policy: CompiledPolicy, planned: Planned, cases: readonly Case[]): LabelSets {
  const { step, labels } = planned
  if (cases.length === 0) return { definite: new Set(), possible: labels.possible, isOpen: labels.isOpen }
  const definite = new Set([...labels.definite, ...step.outputLabels])
  const possible = new Set([...labels.possible, ...step.outputLabels])
  for (const each of cases) {
    const subject = subjectOf(planned, each)
    for (const rule of policy.labelRulesFor(step.tool)) {
      const matches = outcomeOf(rule, subject) ?? maybe
      if (matches === no) continue
      for (const label of rule.addLabels) {
        possible.add(label)
        if (matches === yes && each.occurs === yes) definite.add(label)
      }
    }
  }
  const isCertain = cases.some((each) => each.occurs === yes) && step.onError !== 'continue'
  const isOpen = labels.isOpen || step.bringsOwnLabels === true
  return { definite: isCertain ? definite : new Set(), possible, isOpen }
}

/** Whether a rule matches; null once the budget is used up: a rule that needs no comparison is decided all the same. */
function outcomeOf(rule: Conditions, subject: Subject): Tri | null {
  try {
    return evaluate(rule, subject)
  } catch (error) {
    if (!(error instanceof BudgetExceeded)) throw error
    return null
  }
}

function known(labels: readonly Label[]): LabelSets {
  const set = new Set(labels)
  return { definite: set, possible: set, isOpen: false }
}

const anything: LabelSets = { definite: new Set(), possible: new Set(), isOpen: true }

function unite(sets: readonly LabelSets[]): LabelSets {
  return {
    definite: new Set(sets.flatMap((set) => [...set.definite])),
    possible: new Set(sets.flatMap((set) => [...set.possible])),
    isOpen: sets.some((set) => set.isOpen),
  }
}

/** Dependencies before dependants; steps of a cycle, which no saved definition has, come last. */
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
