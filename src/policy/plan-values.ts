import type { Builtins } from './builtins.ts'
import { type Part, type Reference, type WithPath, isTemplate, parseText, pathAt } from './template-syntax.ts'
import { missingInput, textFor, valueAt } from './templates.ts'
import type { TextBudget } from './text-budget.ts'
import type { Json, JsonObject } from './types.ts'
import { givenInput } from './uploaded-files.ts'
import { Hole, type Partial, isList } from './values.ts'

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
