import type { Budget } from './budget.ts'
import { isBuiltin } from './builtins.ts'
import type { LabelSets } from './label-sets.ts'
import { type Plan, type PlanStep, isUnknownInput } from './plan-types.ts'
import { references } from './template-syntax.ts'
import { inputSource } from './templates.ts'
import { type Tri, yes } from './tri.ts'
import type { Json, Label } from './types.ts'
import { whenParts } from './when.ts'

/** The start knows all inputs and dates. A preview knows only bounds of the labels that count then. */
export interface StartLabels {
  /** The labels that the later analysis certainly counts as possible. */
  readonly certain: ReadonlySet<Label>
  /** Any label may count, because an input is unknown or the budget of this analysis is used up. */
  readonly isOpen: boolean
}

interface Analyzed {
  readonly step: PlanStep
  readonly sources: readonly string[]
  readonly labels: LabelSets
  readonly outputs: ReadonlyMap<string, LabelSets>
  readonly budget: Budget
}

const open: StartLabels = { certain: new Set(), isOpen: true }

/** The caller passes a step after its dependencies, with the labels that `analyzePlan` has computed. */
export class AtStart {
  readonly #plan: Plan
  /** This is a starting run: all inputs and dates are known. */
  readonly #isSettled: boolean
  /** Their `when` or `for_each` reads something that becomes known only when the run starts. */
  readonly #undecided = new Set<string>()
  /** The keys are those of `Planned.outputs`. */
  readonly #outputs: Map<string, StartLabels>

  constructor(plan: Plan) {
    this.#plan = plan
    this.#isSettled = plan.areInputsComplete && !plan.steps.some((step) => this.#hasUnknownBuiltin(step))
    this.#outputs = new Map(
      [...(plan.inputLabels ?? [])].map(([name, labels]) => [
        inputSource(name),
        { certain: new Set(labels), isOpen: isUnknownInput(plan, name) },
      ]),
    )
  }

  of({ sources, labels, budget }: Pick<Analyzed, 'sources' | 'labels' | 'budget'>): StartLabels {
    if (labels.isOpen && budget.isUsedUp) return { certain: labels.definite, isOpen: true }
    if (this.#isSettled) return { certain: labels.possible, isOpen: false }
    const all = sources.map((id) => this.#outputs.get(id) ?? open)
    return {
      certain: new Set(all.flatMap(({ certain }) => [...certain])),
      isOpen: all.some(({ isOpen }) => isOpen),
    }
  }

  /** @param made labels that a tool or label rule adds. `occurs` tells how certainly the call occurs. */
  add(
    { step, budget, start }: Pick<Analyzed, 'step' | 'budget'> & { readonly start: StartLabels },
    output: LabelSets,
    made: readonly { readonly labels: readonly Label[]; readonly occurs: Tri }[],
  ): void {
    const isOpen = start.isOpen || (output.isOpen && budget.isUsedUp)
    if (this.#isSettled) {
      this.#outputs.set(step.id, { certain: output.possible, isOpen })
      return
    }
    if (this.#isDecidedAtStart(step)) this.#undecided.add(step.id)
    const isSame = !this.#undecided.has(step.id)
    const counted = made.filter(({ occurs }) => occurs === yes || isSame).flatMap(({ labels }) => labels)
    this.#outputs.set(step.id, { certain: new Set([...start.certain, ...counted]), isOpen })
  }

  /** They bring the label in some runs of the plan, and not in others. */
  deciders({ sources, outputs }: Pick<Analyzed, 'sources' | 'outputs'>, label: Label): string[] {
    return [...new Set(sources)].filter((id) => {
      const { certain, isOpen } = this.#outputs.get(id) ?? open
      return !certain.has(label) && (isOpen || outputs.get(id)?.possible.has(label) === true)
    })
  }

  /** True if it depends on an input, date or fact of the run that is unknown until the start, or on another such step. */
  #isDecidedAtStart(step: PlanStep): boolean {
    if (step.skipsWithOthers === true && step.dependsOn.some((id) => this.#undecided.has(id))) return true
    return references(conditionsOf(step)).some((reference) => {
      if (reference.kind === 'input') return isUnknownInput(this.#plan, reference.name)
      if (reference.kind === 'step') return this.#undecided.has(reference.stepId)
      return this.#plan.builtins === undefined && isBuiltin(reference.kind)
    })
  }

  #hasUnknownBuiltin(step: PlanStep): boolean {
    if (this.#plan.builtins !== undefined) return false
    return references([step.params, ...conditionsOf(step)]).some(({ kind }) => isBuiltin(kind))
  }
}

const conditionsOf = ({ when, forEach }: PlanStep): Json[] => [...whenParts(when), forEach ?? null]
