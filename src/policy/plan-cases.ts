import type { Budget } from './budget.ts'
import type { LabelSets, Origins } from './evaluate.ts'
import { fillInMe } from './me.ts'
import type { Plan, PlanStep } from './plan.ts'
import { type PlanScope, fillIn, isKnown } from './plan-values.ts'
import { references } from './template-syntax.ts'
import { inputSource } from './templates.ts'
import type { TextRoom } from './text-room.ts'
import { type Tri, maybe, no, tri, yes } from './tri.ts'
import type { Json } from './types.ts'
import { Hole, type Partial, isList } from './values.ts'
import { holds } from './when.ts'

/** A step under analysis, with what is known of those before it. */
export interface Planned {
  readonly step: PlanStep
  readonly plan: Plan
  /** Labels of its inputs. */
  readonly labels: LabelSets
  readonly origins: Origins
  readonly skipped: ReadonlySet<string>
  /** What the analysis of the whole plan may still cost. */
  readonly budget: Budget
  readonly room: TextRoom
}

/** One call that a step makes, or may make. */
export interface Case {
  readonly occurs: typeof maybe | typeof yes
  readonly params: Partial
}

/** Known items looked at one by one; the rest of a longer list is one unknown item. */
const mostItems = 100

/** The calls a step makes: one, or one for each item; none if it is certainly skipped. */
export function casesOf(planned: Planned): Case[] {
  const { step, plan, skipped, room } = planned
  const scope: PlanScope = { ...plan, skipped, room }
  return itemsOf(step, scope).flatMap(({ occurs, ...item }) => {
    const within = { ...scope, ...item }
    const runs = Math.min(occurs, whenHolds(step, within, planned.budget)) as Tri
    if (runs === no) return []
    const params = fillIn(step.params, within)
    return [{ occurs: runs, params: fillInMe(params, step.people ?? [], plan.requesterEmail ?? null) }]
  })
}

interface Item {
  readonly occurs: typeof maybe | typeof yes
  readonly item?: Partial
  readonly index?: number
}

function itemsOf(step: PlanStep, scope: PlanScope): Item[] {
  if (step.forEach === undefined) return [{ occurs: yes }]
  const list = fillIn(step.forEach, scope)
  const unknownItem = { occurs: maybe, item: new Hole(null) } as const
  if (!isList(list)) return [unknownItem]
  const items = list.slice(0, mostItems).map((item, index) => ({ occurs: yes, item, index }) as const)
  return list.length > mostItems ? [...items, unknownItem] : items
}

function whenHolds(step: PlanStep, scope: PlanScope, budget: Budget): Tri {
  if (step.when === undefined) return yes
  const value = fillIn(step.when.value, scope)
  const compare = step.when.compare === undefined ? undefined : fillIn(step.when.compare, scope)
  if (!isKnown(value) || (compare !== undefined && !isKnown(compare))) return maybe
  try {
    return tri(holds(step.when.operator, value, compare, budget))
  } catch {
    return maybe
  }
}

type Labelled = Plan['inputLabels']

/** Dotted parameter path → the steps, and the inputs with labels, it is built from; the same for every filling of what is unknown. */
export function sourcesOf(step: PlanStep, labelled: Labelled): ReadonlyMap<string, readonly string[]> {
  const itemSources = sourcesIn(step.forEach ?? null, [], labelled)
  const sources = new Map<string, readonly string[]>()
  const visit = (value: Json, path: string): void => {
    if (typeof value === 'string') {
      const ids = sourcesIn(value, itemSources, labelled)
      if (ids.length > 0) sources.set(path, ids)
    } else if (typeof value === 'object' && value !== null) {
      for (const [key, each] of Object.entries(value)) visit(each, path === '' ? key : `${path}.${key}`)
    }
  }
  visit(step.params, '')
  return sources
}

/** The inputs with labels that a step refers to, anywhere. */
export function labelledInputsOf(step: PlanStep, labelled: Labelled): string[] {
  if (labelled === undefined || labelled.size === 0) return []
  const places = [step.params, step.when?.value ?? null, step.when?.compare ?? null, step.forEach ?? null]
  return sourcesIn(places, [], labelled).filter((id) => id.startsWith(inputSource('')))
}

function sourcesIn(value: Json, itemSources: readonly string[], labelled: Labelled): string[] {
  const ids = new Set<string>()
  for (const reference of references(value)) {
    if (reference.kind === 'step') ids.add(reference.stepId)
    if (reference.kind === 'item') for (const id of itemSources) ids.add(id)
    if (reference.kind === 'input' && labelled?.has(reference.name) === true)
      ids.add(inputSource(reference.name))
  }
  return [...ids].sort()
}
