import type { Budget } from './budget.ts'
import type { LabelSets, Origins } from './label-sets.ts'
import { fillInMe } from './me.ts'
import { isUnknownInput, type Plan, type PlanStep } from './plan-types.ts'
import type { AtStart, StartLabels } from './plan-start-labels.ts'
import { type PlanScope, fillIn, isKnown } from './plan-values.ts'
import { type Reference, placeOfItem, references } from './template-syntax.ts'
import { inputSource } from './templates.ts'
import type { TextBudget } from './text-budget.ts'
import { type Tri, maybe, no, tri, yes } from './tri.ts'
import type { Json } from './types.ts'
import { Hole, type Partial, isList } from './values.ts'
import { asksForPresence, holds } from './when.ts'

export interface Planned {
  readonly step: PlanStep
  readonly plan: Plan
  /** Steps that this step waits for, and inputs that it uses and that can have labels (`input.NAME`). */
  readonly sources: readonly string[]
  /** By the dotted path of the parameter. */
  readonly paramSources: ReadonlyMap<string, readonly string[]>
  /** The labels of inputs, and of the outputs of earlier steps. */
  readonly outputs: ReadonlyMap<string, LabelSets>
  readonly labels: LabelSets
  readonly origins: Origins
  /** For the time when the run starts. */
  readonly start: StartLabels
  readonly atStart: AtStart
  readonly skipped: ReadonlySet<string>
  /** All steps of the plan share this budget and `textBudget`. */
  readonly budget: Budget
  readonly textBudget: TextBudget
}

export interface Case {
  readonly occurs: typeof maybe | typeof yes
  readonly params: Partial
}

/** The rest of a longer list counts as one unknown item. */
const mostItems = 100

/** One call, or one for each item. Is empty if the step is certainly skipped. */
export function casesOf(planned: Planned): Case[] {
  const { step, plan, skipped, textBudget } = planned
  const scope: PlanScope = { ...plan, skipped, textBudget }
  const whenHolds = whenOf(planned, scope)
  return itemsOf(step, scope).flatMap(({ occurs, ...item }) => {
    const within = { ...scope, ...item }
    const runs = Math.min(occurs, whenHolds(within)) as Tri
    if (runs === no) return []
    const params = fillIn(step.params, within)
    return [{ occurs: runs, params: fillInMe(params, step.people ?? [], plan.requesterEmail ?? null) }]
  })
}

export const runsOf = (cases: readonly Case[]): Tri =>
  cases.length === 0 ? no : cases.some(({ occurs }) => occurs === yes) ? yes : maybe

interface Item {
  readonly occurs: typeof maybe | typeof yes
  readonly item?: Partial
  readonly index?: number
}

function itemsOf(step: PlanStep, scope: PlanScope): Item[] {
  if (step.forEach === undefined) return [{ occurs: yes }]
  const list = fillIn(step.forEach, scope)
  const unknownItem = { occurs: maybe, item: new Hole(null, { from: ['item'], isWhole: true }) } as const
  if (!isList(list)) return [unknownItem]
  const items = list.slice(0, mostItems).map((item, index) => ({ occurs: yes, item, index }) as const)
  return list.length > mostItems ? [...items, unknownItem] : items
}

/** A side of the `when` that is the same for all items is filled in only once. */
function whenOf({ step, budget }: Planned, scope: PlanScope): (within: PlanScope) => Tri {
  if (step.when === undefined) return () => yes
  const { operator } = step.when
  const valueIn = sideOf(step.when.value, { ...scope, missingIsNull: asksForPresence(step.when) })
  const compareIn = step.when.compare === undefined ? () => undefined : sideOf(step.when.compare, scope)
  return (within) => {
    if (budget.isUsedUp) return maybe
    const value = valueIn(within)
    const compare = compareIn(within)
    if (value === unclear || compare === unclear) return maybe
    try {
      return tri(holds(operator, value, compare, budget))
    } catch {
      return maybe
    }
  }
}

/** Stands for a side of a `when` that has an unknown part. */
const unclear = Symbol('unclear')

/** Returns `unclear` if the side has an unknown part. */
function sideOf(written: Json, scope: PlanScope): (within: PlanScope) => Json | typeof unclear {
  const read = (within: PlanScope): Json | typeof unclear => {
    const value = fillIn(written, { ...within, missingIsNull: scope.missingIsNull })
    return isKnown(value) ? value : unclear
  }
  if (references(written).some(isOfItem)) return read
  let known: Json | typeof unclear | undefined
  return () => (known === undefined ? (known = read(scope)) : known)
}

const isOfItem = (reference: Reference): boolean =>
  reference.kind === 'item' ||
  reference.kind === 'index' ||
  ('path' in reference && reference.path.includes(placeOfItem))

type LabelledInputs = Pick<Plan, 'inputs' | 'areInputsComplete' | 'inputLabels'>

/** By dotted path. They depend only on the templates, so they are known while the values are unknown. */
export function sourcesOf(
  step: Pick<PlanStep, 'params' | 'forEach'>,
  plan: LabelledInputs,
): ReadonlyMap<string, readonly string[]> {
  const itemSources = sourcesIn(step.forEach ?? null, [], plan)
  const sources = new Map<string, readonly string[]>()
  const visit = (value: Json, path: string): void => {
    if (typeof value === 'string') {
      const ids = sourcesIn(value, itemSources, plan)
      if (ids.length > 0) sources.set(path, ids)
    } else if (typeof value === 'object' && value !== null) {
      for (const [key, each] of Object.entries(value)) visit(each, path === '' ? key : `${path}.${key}`)
    }
  }
  visit(step.params, '')
  return sources
}

/** Those that can have labels, as `input.NAME`. */
export function labelledInputsOf(step: PlanStep, plan: Plan): string[] {
  if (plan.areInputsComplete && (plan.inputLabels === undefined || plan.inputLabels.size === 0)) return []
  const places = [step.params, step.when?.value ?? null, step.when?.compare ?? null, step.forEach ?? null]
  return sourcesIn(places, [], plan).filter((id) => id.startsWith(inputSource('')))
}

function sourcesIn(value: Json, itemSources: readonly string[], plan: LabelledInputs): string[] {
  const ids = new Set<string>()
  for (const reference of references(value)) {
    if (reference.kind === 'step') ids.add(reference.stepId)
    if (reference.kind === 'item') for (const id of itemSources) ids.add(id)
    if (reference.kind === 'input' && canHaveLabels(plan, reference.name))
      ids.add(inputSource(reference.name))
  }
  return [...ids].sort()
}

const canHaveLabels = (plan: LabelledInputs, name: string): boolean =>
  plan.inputLabels?.has(name) === true || isUnknownInput(plan, name)
