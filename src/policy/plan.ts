import { Budget, BudgetExceeded, planBudget } from './budget.ts'
import type { Builtins } from './builtins.ts'
import type { CompiledPolicy } from './compile.ts'
import { type Conditions, type LabelSets, type Subject, evaluate, isUnconditional } from './evaluate.ts'
import { type Case, type Planned, casesOf, labelledInputsOf, sourcesOf } from './plan-cases.ts'
import { known, originsOf, unite } from './plan-labels.ts'
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
 * the comparison budget). All steps share one budget; once it is used up, rules with conditions may match, so the run's
 * own decisions decide; text beyond `mostResolvedText` is unknown. `blocks` says why a tool is denied wherever its step
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
    const labels = unite(sources, outputs, budget)
    const origins = originsOf(sourcesOf(step, plan.inputLabels), outputs, budget)
    const planned: Planned = { step, plan, labels, origins, skipped, budget, room }
    const cases = casesOf(planned)
    if (cases.length === 0) skipped.add(step.id)
    const calls = callsOf(planned, cases)
    analyses.set(step.id, analyzeStep(policy, planned, calls, blocks(step.tool, step.sideEffect)))
    outputs.set(step.id, outputLabels(policy, planned, calls))
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

/** One call that a step makes, or may make, ready for the rules. */
interface PlannedCall {
  readonly occurs: Case['occurs']
  readonly subject: Subject
}

function analyzeStep(
  policy: CompiledPolicy,
  { step, labels }: Planned,
  calls: readonly PlannedCall[],
  blocked: Blocked | null,
): StepAnalysis {
  let definite: Verdict = 'allow'
  let possible: Verdict = 'allow'
  const rules: PlannedRule[] = []
  if (policy.frozen !== null || blocked !== null) {
    if (calls.length > 0) possible = 'deny'
    if (calls.some((call) => call.occurs === yes)) definite = 'deny'
  } else {
    for (const rule of policy.rulesFor(step.tool, step.sideEffect, 'workflows')) {
      if (rule.isShadow) continue
      const outcome = outcomeOf(rule, calls)
      // The call itself may turn out too large, which denies it.
      if (outcome.isCut) possible = 'deny'
      if (outcome.matches === no) continue
      const effect = rule.verdict === 'require_approval' && !policy.approvalsEnabled ? 'deny' : rule.verdict
      possible = stricter(possible, effect)
      if (isDefinite(outcome)) definite = stricter(definite, effect)
      rules.push({
        ruleId: rule.id,
        name: rule.name,
        verdict: rule.verdict,
        certainty: isDefinite(outcome) ? 'definite' : 'possible',
        because: rule.because + condition(outcome.matches, outcome.occurs),
      })
    }
  }
  return {
    stepId: step.id,
    tool: step.tool,
    sideEffect: step.sideEffect,
    verdict: possible,
    certainty: definite === possible ? 'definite' : 'possible',
    definiteVerdict: definite,
    labels: { definite: [...labels.definite].sort(), possible: [...labels.possible].sort() },
    rules,
    blocked,
  }
}

function condition(matches: Tri, occurs: Tri): string {
  if (matches === maybe) return ', if what is only known during the run turns out so'
  return occurs === maybe ? ', if the step runs at all' : ''
}

/** A step's calls have the same labels, and differ in their parameters. */
function callsOf({ labels, origins, budget }: Planned, cases: readonly Case[]): PlannedCall[] {
  const byLabels: Subject['byLabels'] = new Map()
  return cases.map(({ occurs, params }) => ({
    occurs,
    subject: { params, labels, origins, budget, byLabels, found: new Map() },
  }))
}

/**
 * Labels of what a step hands on. A step that may be skipped, run for no item, or fail with `on_error: continue` may
 * hand on nothing, so none of them is definite.
 */
function outputLabels(policy: CompiledPolicy, planned: Planned, calls: readonly PlannedCall[]): LabelSets {
  const { step, labels, budget } = planned
  if (calls.length === 0) return { definite: new Set(), possible: labels.possible, isOpen: labels.isOpen }
  const definite = new Set([...labels.definite, ...step.outputLabels])
  const possible = new Set([...labels.possible, ...step.outputLabels])
  let isOpen = labels.isOpen || step.bringsOwnLabels === true
  for (const rule of policy.labelRulesFor(step.tool)) {
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
  }
  const isCertain = calls.some((call) => call.occurs === yes) && step.onError !== 'continue'
  return { definite: isCertain ? definite : new Set(), possible, isOpen }
}

/** What a rule says of a step: that of the call which it meets most certainly. */
interface Outcome {
  readonly matches: Tri
  readonly occurs: Case['occurs']
  /** The budget did not last for all calls. */
  readonly isCut: boolean
}

function isDefinite({ matches, occurs }: Outcome): boolean {
  return matches === yes && occurs === yes
}

/** A rule that needs no comparison is decided once for all calls, also without budget. */
function outcomeOf(rule: Conditions, calls: readonly PlannedCall[]): Outcome {
  let best: Outcome = { matches: no, occurs: maybe, isCut: false }
  const sameForAll = rule.params?.length === 0
  const certain = sameForAll ? calls.find((call) => call.occurs === yes) : undefined
  for (const { subject, occurs } of certain === undefined ? calls : [certain]) {
    const matches = matchesWithin(rule, subject)
    if (matches === null)
      return isDefinite(best) ? { ...best, isCut: true } : { matches: maybe, occurs, isCut: true }
    if (matches !== no && !isDefinite(best)) best = { matches, occurs, isCut: false }
    if (sameForAll) break
  }
  return best
}

/** null once the budget is used up. Asked before the look: an error for each rule and step would cost more than the rule. */
function matchesWithin(rule: Conditions, subject: Subject): Tri | null {
  if (subject.budget.isUsedUp && !isUnconditional(rule)) return null
  try {
    return evaluate(rule, subject)
  } catch (error) {
    if (!(error instanceof BudgetExceeded)) throw error
    return null
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
