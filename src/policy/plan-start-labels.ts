import type { Budget } from './budget.ts'
import type { LabelSets } from './label-sets.ts'
import { type Plan, type PlanStep, isUnknownInput } from './plan-types.ts'
import { references } from './template-syntax.ts'
import { inputSource } from './templates.ts'
import { type Tri, yes } from './tri.ts'
import type { Json, Label } from './types.ts'

/**
 * Bounds of the labels of a value at the start of the run. The start analyses the plan again, with all inputs and
 * dates. A preview may lack some of them. So the preview knows only bounds of the labels that the later analysis will
 * count as possible.
 */
export interface StartLabels {
  /** The labels that the later analysis certainly counts as possible. */
  readonly certain: ReadonlySet<Label>
  /**
   * Whether the later analysis may count any label as possible, because an input is unknown or the budget of this
   * analysis is used up.
   */
  readonly isOpen: boolean
}

/** The fields of a planned step (`Planned`) from which its bounds are computed. */
interface Analyzed {
  readonly step: PlanStep
  readonly sources: readonly string[]
  readonly labels: LabelSets
  readonly outputs: ReadonlyMap<string, LabelSets>
  readonly budget: Budget
}

const open: StartLabels = { certain: new Set(), isOpen: true }

/**
 * Computes `StartLabels` for each step of a plan. The caller must pass a step after all steps on which it depends. The
 * caller also passes the labels that `analyzePlan` has computed for the step.
 */
export class AtStart {
  readonly #plan: Plan
  /** True if this is the plan of a starting run: all inputs and dates are known. */
  readonly #isSettled: boolean
  /**
   * The steps whose `when` or `for_each` reads something that is unknown in this plan, but becomes known when the run
   * starts.
   */
  readonly #undecided = new Set<string>()
  /** The bounds of each source. The keys are those of `Planned.outputs`. */
  readonly #outputs: Map<string, StartLabels>

  constructor(plan: Plan) {
    this.#plan = plan
    this.#isSettled = plan.areInputsComplete && !plan.steps.some((step) => this.#hasUnknownDate(step))
    this.#outputs = new Map(
      [...(plan.inputLabels ?? [])].map(([name, labels]) => [
        inputSource(name),
        { certain: new Set(labels), isOpen: isUnknownInput(plan, name) },
      ]),
    )
  }

  /** Returns the bounds of the labels that the inputs of a step may have. */
  of({ sources, labels, budget }: Pick<Analyzed, 'sources' | 'labels' | 'budget'>): StartLabels {
    if (labels.isOpen && budget.isUsedUp) return { certain: labels.definite, isOpen: true }
    if (this.#isSettled) return { certain: labels.possible, isOpen: false }
    const all = sources.map((id) => this.#outputs.get(id) ?? open)
    return {
      certain: new Set(all.flatMap(({ certain }) => [...certain])),
      isOpen: all.some(({ isOpen }) => isOpen),
    }
  }

  /**
   * Records the bounds for the output of a step.
   * @param made lists of labels that the tool or a label rule adds in a call. `occurs` tells how certainly the call
   * occurs.
   */
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

  /** Returns the sources of a step that bring the label in some runs of the plan, and not in others. */
  deciders({ sources, outputs }: Pick<Analyzed, 'sources' | 'outputs'>, label: Label): string[] {
    return [...new Set(sources)].filter((id) => {
      const { certain, isOpen } = this.#outputs.get(id) ?? open
      return !certain.has(label) && (isOpen || outputs.get(id)?.possible.has(label) === true)
    })
  }

  /**
   * Returns whether the `when` or `for_each` of the step depends on an input or a date that is unknown until the run
   * starts. Also returns true if `when` or `for_each` reads the output of another such step.
   */
  #isDecidedAtStart(step: PlanStep): boolean {
    return references(conditionsOf(step)).some((reference) => {
      if (reference.kind === 'input') return isUnknownInput(this.#plan, reference.name)
      if (reference.kind === 'step') return this.#undecided.has(reference.stepId)
      return this.#plan.builtins === undefined && isDate(reference.kind)
    })
  }

  #hasUnknownDate(step: PlanStep): boolean {
    if (this.#plan.builtins !== undefined) return false
    return references([step.params, ...conditionsOf(step)]).some(({ kind }) => isDate(kind))
  }
}

const conditionsOf = ({ when, forEach }: PlanStep): Json[] => [
  when?.value ?? null,
  when?.compare ?? null,
  forEach ?? null,
]

const isDate = (kind: string): boolean => kind === 'today' || kind === 'yesterday' || kind === 'now'
