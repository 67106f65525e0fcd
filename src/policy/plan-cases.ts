import { type Budget, BudgetExceeded } from './budget.ts'
import type { LabelSets, Origins } from './label-sets.ts'
import { fillInMe } from './me.ts'
import { isUnknownInput, type Plan, type PlanStep } from './plan-types.ts'
import type { AtStart, StartLabels } from './plan-start-labels.ts'
import {
  type Reference,
  placeOfItem,
  references,
  type Part,
  type WithPath,
  isTemplate,
  parseText,
  pathAt,
} from './template-syntax.ts'
import { inputSource, type TextBudget, missingInput, textFor, valueAt, givenInput } from './templates.ts'
import { type Tri, maybe, no, tri, yes } from './tri.ts'
import type { Json, JsonObject } from './types.ts'
import { Hole, type Partial, isList } from './values.ts'
import { asksForPresence, holds } from './when.ts'
import { type Conditions, type Subject, evaluate, isUnconditional } from './evaluate.ts'
import { type ToolFacts, withLinked } from './tool-facts.ts'
import type { Builtins } from './builtins.ts'

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

export interface PlannedCall {
  readonly occurs: Case['occurs']
  /** Tool policies check these. Rules check those of `subject`, with values from a link (`withLinked`). */
  readonly given: Partial
  readonly subject: Subject
}

/** A step without a tool makes no call. */
export interface Running {
  readonly runs: Tri
  readonly calls: readonly PlannedCall[]
}

/** All calls of a step have the same labels, so they share the results of label conditions. */
export function callsOf(
  facts: ToolFacts,
  { step, labels, origins, budget }: Planned,
  cases: readonly Case[],
): PlannedCall[] {
  const byLabels: Subject['byLabels'] = new Map()
  if (step.tool === null) return []
  const reading = facts.reading(step.tool, 'workflows')
  return cases.map(({ occurs, params }) => ({
    occurs,
    given: params,
    subject: {
      params: withLinked(reading, params),
      places: reading.places,
      defaults: reading.defaults,
      destination: step.destination === undefined ? new Hole(null) : step.destination,
      labels,
      origins,
      budget,
      byLabels,
      found: new Map(),
    },
  }))
}

/** The outcome for the call that the rule matches most certainly. */
export interface Outcome {
  readonly matches: Tri
  readonly occurs: Case['occurs']
  /** Null if the rule matches no call. */
  readonly subject: Subject | null
  /** The budget was used up before all calls were evaluated. */
  readonly isCut: boolean
}

export function isDefinite({ matches, occurs }: Pick<Outcome, 'matches' | 'occurs'>): boolean {
  return matches === yes && occurs === yes
}

/** Most rules match no call of a step, so this outcome is made only once. */
const unmatched: Outcome = { matches: no, occurs: maybe, subject: null, isCut: false }

/** Without conditions on parameters, evaluated once; without any condition, even if the budget is used up. */
export function outcomeOf(rule: Conditions, calls: readonly PlannedCall[]): Outcome {
  let best = unmatched
  const sameForAll = rule.params?.length === 0
  const certain = sameForAll ? calls.find((call) => call.occurs === yes) : undefined
  for (const { subject, occurs } of certain === undefined ? calls : [certain]) {
    const matches = matchesWithin(rule, subject)
    if (matches === null)
      return isDefinite(best) ? { ...best, isCut: true } : { matches: maybe, occurs, subject, isCut: true }
    if (matches !== no && !isDefinite(best)) best = { matches, occurs, subject, isCut: false }
    if (sameForAll) break
  }
  return best
}

/** Null once the budget is used up. Tested first, because an error would cost more than the evaluation. */
function matchesWithin(rule: Conditions, subject: Subject): Tri | null {
  if (subject.budget.isUsedUp && !isUnconditional(rule)) return null
  try {
    return evaluate(rule, subject)
  } catch (error) {
    if (!(error instanceof BudgetExceeded)) throw error
    return null
  }
}

export interface PlanScope {
  readonly inputs: JsonObject
  /** See `Plan.areInputsComplete`. */
  readonly areInputsComplete: boolean
  readonly builtins?: Builtins | undefined
  /** Certainly skipped. The output of such a step is null. */
  readonly skipped: ReadonlySet<string>
  /** Characters that templates in the whole plan may still produce. */
  readonly textBudget: TextBudget
  readonly item?: Partial | undefined
  readonly index?: number | undefined
  /** See `Scope.missingIsNull`. */
  readonly missingIsNull?: boolean | undefined
}

/** Unknown parts become holes. Never throws. */
export function fillIn(value: Json, scope: PlanScope): Partial {
  if (typeof value === 'string') return isTemplate(value) ? fillInText(value, scope) : value
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return (value as readonly Json[]).map((each) => fillIn(each, scope))
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, fillIn(each, scope)]))
}

export function isKnown(value: Partial): value is Json {
  if (value instanceof Hole) return false
  return typeof value !== 'object' || value === null || Object.values(value).every(isKnown)
}

function fillInText(text: string, scope: PlanScope): Partial {
  const parts = parseText(text)
  const [only] = parts
  if (parts.length === 1 && only !== undefined && typeof only !== 'string') return lookUp(only, scope)
  const filled = new TextPieces()
  for (const part of parts) {
    // Beyond the budget, text is unknown: the run resolves it later, or fails before any decision.
    const piece = scope.textBudget.isUsedUp ? null : pieceOf(part, scope)
    const length = piece instanceof Hole ? piece.leastLength : (piece ?? '').length
    if (piece === null || !scope.textBudget.take(1 + length)) {
      filled.add(typeof part === 'string' ? new Hole(null) : unknown(part))
      break
    }
    filled.add(piece)
  }
  return filled.joined()
}

function pieceOf(part: Part, scope: PlanScope): string | Hole {
  if (typeof part === 'string') return part
  // If a text refers to an input that is not given, the step fails before any decision. So an unknown value is safe.
  if (missingInput(part, scope.inputs) !== null) return unknown(part)
  const value = lookUp(part, scope)
  if (value instanceof Hole) return value
  return isKnown(value) ? textFor(part, value) : unknown(part)
}

/** Maximum number of references that explanations can name for one text with unknown parts. */
const mostNames = 100

class TextPieces {
  /** The first piece is the beginning of the text. */
  readonly #before: string[] = []
  #last = ''
  readonly #from = new Set<string>()
  add(piece: string | Hole): void {
    if (typeof piece === 'string') {
      this.#last += piece
      return
    }
    this.#last += piece.prefix ?? ''
    for (const each of piece.after) {
      if (this.#before.length === 0 || this.#last !== '') this.#before.push(this.#last)
      this.#last = each
    }
    for (const name of piece.from) if (this.#from.size < mostNames) this.#from.add(name)
  }
  joined(): string | Hole {
    const [prefix, ...after] = this.#before
    if (prefix === undefined) return this.#last
    return new Hole(prefix, { after: [...after, this.#last], from: [...this.#from] })
  }
}

function lookUp(reference: Reference, scope: PlanScope): Partial {
  switch (reference.kind) {
    case 'today':
    case 'yesterday':
    case 'now':
      return scope.builtins?.[reference.kind] ?? new Hole('', { from: [reference.kind], isWhole: true })
    case 'input': {
      if (!scope.areInputsComplete && !Object.hasOwn(scope.inputs, reference.name)) return unknown(reference)
      const value = givenInput(scope.inputs, reference.name)
      return value === undefined || value === null ? null : followKnown(value, reference, scope)
    }
    case 'item':
      return scope.item === undefined ? unknown(reference) : follow(scope.item, reference, scope)
    case 'index':
      return scope.index ?? unknown(reference)
    case 'step':
      return scope.skipped.has(reference.stepId) ? null : unknown(reference)
    default:
      return unknown(reference)
  }
}

const nameOf = ({ text }: Reference): string => text.slice(2, -2).trim()
const unknown = (reference: Reference): Hole => new Hole(null, { from: [nameOf(reference)], isWhole: true })

/** If it is not null, an unknown value is safe, because the step then fails before any decision. */
const missing = (reference: Reference, scope: PlanScope): Partial =>
  scope.missingIsNull === true ? null : unknown(reference)

function followKnown(value: Json, reference: WithPath, scope: PlanScope): Partial {
  const path = pathAt(reference.path, scope.index)
  if (path === null) return unknown(reference)
  const found = valueAt(value, path)
  return found === undefined ? missing(reference, scope) : found
}

function follow(value: Partial, reference: WithPath, scope: PlanScope): Partial {
  if (value === null) return null
  const path = pathAt(reference.path, scope.index)
  if (path === null) return unknown(reference)
  let at: Partial = value
  for (const segment of path) {
    if (at instanceof Hole) return unknown(reference)
    if (typeof at !== 'object' || at === null) return missing(reference, scope)
    const holder: object = at
    const isThere: boolean = isList(at) ? /^\d{1,9}$/.test(segment) : Object.hasOwn(holder, segment)
    const below: Partial | undefined = isThere
      ? (at as { readonly [key: string]: Partial })[segment]
      : undefined
    if (below === undefined) return missing(reference, scope)
    at = below
  }
  return at
}
