import { type Budget, BudgetExceeded } from './budget.ts'
import type { LabelSets, Origins } from './label-sets.ts'
import { fillInMe } from './me.ts'
import { isUnknownInput, type Plan, type PlanStep } from './plan-types.ts'
import type { AtStart, StartLabels } from './plan-start-labels.ts'
import { references, type Part, isTemplate, parseText, type Template } from './template-syntax.ts'
import { type Reference, placeOfItem, type WithPath, pathAt } from './reference.ts'
import {
  asText,
  givenInput,
  inputSource,
  MissingPath,
  missingInput,
  textFor,
  valueAt,
  type TextBudget,
} from './templates.ts'
import { type Tri, least, maybe, no, not, tri, yes } from './tri.ts'
import type { Json, JsonObject } from './types.ts'
import { Hole, type Partial, isList } from './values.ts'
import { asksForPresence, holds, holdsIfMissing, whenParts } from './when.ts'
import { TextPieces } from './text-pieces.ts'
import { evaluate as evaluateNode, Missing, truth, type Value } from './expressions/evaluate.ts'
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
  /** Whether all steps that it depends on are skipped, and the step with them. */
  readonly passedOver: Tri
  readonly computed: ReadonlyMap<string, Partial>
  /** All steps of the plan share the three budgets. */
  readonly budget: Budget
  readonly textBudget: TextBudget
  readonly expressions: Budget
}

export interface Case {
  readonly occurs: typeof maybe | typeof yes
  readonly params: Partial
}

/** The rest of a longer list counts as one unknown item. */
const mostItems = 100

/** One call, or one for each item. Is empty if the step is certainly skipped. */
export function casesOf(planned: Planned): Case[] {
  const { step, plan, skipped, computed, textBudget } = planned
  const scope: PlanScope = { ...plan, skipped, computed, textBudget, expressions: planned.expressions }
  const open = not(planned.passedOver)
  const whenHolds = whenOf(planned, scope)
  return itemsOf(step, scope).flatMap(({ occurs, ...item }) => {
    const within = { ...scope, ...item }
    const runs = least(least(occurs, open), whenHolds(within))
    if (runs === no) return []
    const params = fillIn(step.params, within)
    return [{ occurs: runs, params: fillInMe(params, step.people ?? [], plan.requesterEmail ?? null) }]
  })
}

/**
 * What is known of the output of a `compute` step. Undefined if the step may be skipped, may fail with `on_error:
 * continue`, or has items: then its output may be another one.
 */
export function computedBy(
  { isComputed, forEach, onError }: PlanStep,
  cases: readonly Case[],
): Partial | undefined {
  if (isComputed !== true || forEach !== undefined || onError === 'continue') return undefined
  const [only] = cases
  return only?.occurs === yes ? only.params : undefined
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
  const { when } = step
  if (when === undefined) return () => yes
  const ifMissing = tri(holdsIfMissing(when))
  if (typeof when === 'string') {
    const side = sideOf(when, scope, (within) => conditionIn(when, within))
    return (within) => side(within) ?? ifMissing
  }
  const { operator } = when
  const missing = asksForPresence(when) ? 'null' : 'throws'
  const valueIn = sideOf(when.value, scope, (within) => knownIn(when.value, { ...within, missing }))
  const compareIn = sideOf(when.compare ?? null, scope, (within) =>
    when.compare === undefined ? undefined : knownIn(when.compare, { ...within, missing: 'throws' }),
  )
  return (within) => {
    if (budget.isUsedUp) return maybe
    const value = valueIn(within)
    const compare = compareIn(within)
    if (value === null || compare === null) return ifMissing
    if (value === unclear || compare === unclear) return maybe
    try {
      return tri(holds(operator, value.known, compare?.known, budget))
    } catch {
      return maybe
    }
  }
}

/** Stands for a side of a `when` that has an unknown part. */
const unclear = Symbol('unclear')

/** Null if a path leads to nothing. */
function sideOf<T>(
  written: Json,
  scope: PlanScope,
  read: (within: PlanScope) => T,
): (within: PlanScope) => T | null {
  const tried = (within: PlanScope): T | null => {
    try {
      return read(within)
    } catch (error) {
      if (error instanceof MissingPath) return null
      throw error
    }
  }
  if (references(written).some(isOfItem)) return tried
  let known: { readonly side: T | null } | undefined
  return () => (known ??= { side: tried(scope) }).side
}

function knownIn(written: Json, within: PlanScope): { readonly known: Json } | typeof unclear {
  const value = fillIn(written, within)
  return isKnown(value) ? { known: value } : unclear
}

function conditionIn(written: string, within: PlanScope): Tri {
  const value = fillInText(written, { ...within, missing: 'throws' })
  try {
    return truth(value)
  } catch {
    return maybe
  }
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
  const places = [step.params, ...whenParts(step.when), step.forEach ?? null]
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
  /** What is known of the outputs of `compute` steps that certainly run. */
  readonly computed: ReadonlyMap<string, Partial>
  /** Characters that templates in the whole plan may still produce. */
  readonly textBudget: TextBudget
  readonly item?: Partial | undefined
  readonly index?: number | undefined
  /** For all expressions of the plan. */
  readonly expressions: Budget
  /** A path that leads to nothing: `throws` MissingPath, is `null`, or is an unknown value, because the step then fails. */
  readonly missing?: 'throws' | 'null' | undefined
}

/** Units for all expressions of a plan. What is beyond is unknown until the run. */
export const planExpressions = 100_000

/** Unknown parts become holes. Throws nothing but MissingPath, and that only if the scope asks for it. */
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
  if (parts.length === 1 && only !== undefined && typeof only !== 'string')
    return present(valueOf(only, scope), only, scope)
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
  if (part.kind !== 'expression' && missingInput(part, scope.inputs) !== null) return unknown(part)
  const value = present(valueOf(part, scope), part, scope)
  if (value instanceof Hole) return value
  if (!isKnown(value)) return unknown(part)
  return part.kind === 'expression' ? asText(value) : textFor(part, value)
}

function valueOf(part: Template, scope: PlanScope): Value {
  if (part.kind !== 'expression') return lookUp(part, scope)
  try {
    const read = (reference: Reference): Value => lookUp(reference, scope)
    return evaluateNode(part.node, { read, budget: scope.expressions, mayLack: true })
  } catch (error) {
    // With the values, there is the same error, or the budget of the run suffices.
    return error instanceof MissingPath ? new Missing(error.message) : unknown(part)
  }
}

function present(value: Value, part: Template, scope: PlanScope): Partial {
  if (!(value instanceof Missing)) return value
  if (scope.missing === 'throws') throw new MissingPath(value.message)
  return scope.missing === 'null' ? null : unknown(part)
}

function lookUp(reference: Reference, scope: PlanScope): Value {
  switch (reference.kind) {
    case 'input': {
      if (!scope.areInputsComplete && !Object.hasOwn(scope.inputs, reference.name)) return unknown(reference)
      const value = givenInput(scope.inputs, reference.name)
      return value === undefined || value === null ? null : followKnown(value, reference, scope)
    }
    case 'item':
      return scope.item === undefined ? unknown(reference) : follow(scope.item, reference, scope)
    case 'index':
      return scope.index ?? unknown(reference)
    case 'step': {
      if (reference.of !== 'output') return unknown(reference)
      if (scope.skipped.has(reference.stepId)) return null
      const output = scope.computed.get(reference.stepId)
      return output === undefined ? unknown(reference) : follow(output, reference, scope)
    }
    case 'unknown':
      return unknown(reference)
    default:
      return scope.builtins?.[reference.kind] ?? new Hole('', { from: [reference.kind], isWhole: true })
  }
}

const nameOf = ({ text }: Template): string => text.slice(2, -2).trim()
const unknown = (part: Template): Hole => new Hole(null, { from: [nameOf(part)], isWhole: true })

const nothing = new Missing('the path leads to nothing')

function followKnown(value: Json, reference: WithPath, scope: PlanScope): Value {
  const path = pathAt(reference.path, scope.index)
  return path === null ? unknown(reference) : (valueAt(value, path) ?? nothing)
}

function follow(value: Partial, reference: WithPath, scope: PlanScope): Value {
  if (value === null) return null
  const path = pathAt(reference.path, scope.index)
  if (path === null) return unknown(reference)
  let at: Partial = value
  for (const segment of path) {
    if (at instanceof Hole) return unknown(reference)
    if (typeof at !== 'object' || at === null) return nothing
    const holder: object = at
    const isThere: boolean = isList(at) ? /^\d{1,9}$/.test(segment) : Object.hasOwn(holder, segment)
    const below: Partial | undefined = isThere
      ? (at as { readonly [key: string]: Partial })[segment]
      : undefined
    if (below === undefined) return nothing
    at = below
  }
  return at
}
