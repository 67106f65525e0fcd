import type { Builtins } from './builtins.ts'
import { type Reference, type WithPath, isTemplate, parseText, pathAt } from './template-syntax.ts'
import { TemplateError, descend, missingInput, textFor } from './templates.ts'
import type { TextBudget } from './text-budget.ts'
import type { Json, JsonObject } from './types.ts'
import { givenInput } from './uploaded-files.ts'
import { Hole, type Partial, isList } from './values.ts'

/** The values for the references of a plan, as far as they are known before the run. */
export interface PlanScope {
  readonly inputs: JsonObject
  /** Whether inputs that are not given are absent (true) or unknown (false). */
  readonly areInputsComplete: boolean
  readonly builtins?: Builtins | undefined
  /** Steps that are certainly skipped; their output is null. */
  readonly skipped: ReadonlySet<string>
  /** Characters that templates in the whole plan may still produce. */
  readonly textBudget: TextBudget
  readonly item?: Partial | undefined
  readonly index?: number | undefined
}

/** A value with its known templates filled in. Unknown parts become holes. Never throws. */
export function fillIn(value: Json, scope: PlanScope): Partial {
  if (typeof value === 'string') return isTemplate(value) ? fillInText(value, scope) : value
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return (value as readonly Json[]).map((each) => fillIn(each, scope))
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, fillIn(each, scope)]))
}

/** Whether the value has no unknown part. */
export function isKnown(value: Partial): value is Json {
  if (value instanceof Hole) return false
  return typeof value !== 'object' || value === null || Object.values(value).every(isKnown)
}

function fillInText(text: string, scope: PlanScope): Partial {
  const parts = parseText(text)
  const [only] = parts
  if (parts.length === 1 && only !== undefined && typeof only !== 'string') return lookUp(only, scope)
  let known = ''
  for (const part of parts) {
    // If the text budget is used up, the text is too long to analyse. The run resolves it, or fails before any
    // decision.
    const from = typeof part === 'string' ? null : nameOf(part)
    if (scope.textBudget.isUsedUp) return new Hole(known, from)
    // If a text refers to an input that is not given, the step fails before any decision. So an unknown value is safe.
    if (typeof part !== 'string' && missingInput(part, scope.inputs) !== null) return new Hole(known, from)
    const value = typeof part === 'string' ? part : lookUp(part, scope)
    // Text after the first unknown part is left out, because its position is unknown.
    if (value instanceof Hole) return new Hole(known + (value.prefix ?? ''), from)
    if (!isKnown(value)) return new Hole(known, from)
    const piece = typeof part === 'string' ? part : textFor(part, value)
    if (!scope.textBudget.take(1 + piece.length)) return new Hole(known, from)
    known += piece
  }
  return known
}

function lookUp(reference: Reference, scope: PlanScope): Partial {
  switch (reference.kind) {
    case 'today':
    case 'yesterday':
    case 'now':
      return scope.builtins?.[reference.kind] ?? new Hole('', reference.kind)
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
const unknown = (reference: Reference): Hole => new Hole(null, nameOf(reference))

/**
 * Follows a path into a known value. If the path is missing, the step fails before any decision. So the result may be
 * any value, and an unknown value is safe.
 */
function followKnown(value: Json, reference: WithPath, { index }: PlanScope): Partial {
  const path = pathAt(reference.path, index)
  if (path === null) return unknown(reference)
  try {
    return descend(value, path, reference.text)
  } catch (error) {
    if (error instanceof TemplateError) return unknown(reference)
    throw error
  }
}

function follow(value: Partial, reference: WithPath, { index }: PlanScope): Partial {
  if (value === null) return null
  const path = pathAt(reference.path, index)
  if (path === null) return unknown(reference)
  let at: Partial | undefined = value
  for (const segment of path) {
    if (at instanceof Hole || typeof at !== 'object' || at === null) return unknown(reference)
    const holder: object = at
    const isThere: boolean = isList(at) ? /^\d{1,9}$/.test(segment) : Object.hasOwn(holder, segment)
    at = isThere ? (at as { readonly [key: string]: Partial })[segment] : undefined
  }
  return at ?? unknown(reference)
}
