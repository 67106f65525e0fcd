import type { Builtins } from './builtins.ts'
import { type Reference, isTemplate, parseText } from './template-syntax.ts'
import { TemplateError, asText, descend, own } from './templates.ts'
import type { TextRoom } from './text-room.ts'
import type { Json, JsonObject } from './types.ts'
import { Hole, type Partial, isList } from './values.ts'

/** Like a run's scope, as far as it is known before the run. */
export interface PlanScope {
  readonly inputs: JsonObject
  /** Inputs that are not given are absent; otherwise they are unknown. */
  readonly areInputsComplete: boolean
  readonly uploadedFiles?: Json | undefined
  readonly builtins?: Builtins | undefined
  /** Steps that are certainly skipped: their output is null. */
  readonly skipped: ReadonlySet<string>
  /** What templates inside text may still come to, in the whole plan. */
  readonly room: TextRoom
  readonly item?: Partial | undefined
  readonly index?: number | undefined
}

/** A value with its templates filled in as far as they are known; holes stand for the rest. Never throws. */
export function fillIn(value: Json, scope: PlanScope): Partial {
  if (typeof value === 'string') return isTemplate(value) ? fillInText(value, scope) : value
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return (value as readonly Json[]).map((each) => fillIn(each, scope))
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, fillIn(each, scope)]))
}

/** Whether nothing in the value is unknown. */
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
    // Too long to know; the run finds out, or fails over it before any decision.
    if (scope.room.isUsedUp) return new Hole(known)
    const value = typeof part === 'string' ? part : lookUp(part, scope)
    // What follows the first unknown part is at an unknown place in the text.
    if (value instanceof Hole) return new Hole(known + (value.prefix ?? ''))
    if (!isKnown(value)) return new Hole(known)
    const piece = asText(value)
    if (!scope.room.take(1 + piece.length)) return new Hole(known)
    known += piece
  }
  return known
}

function lookUp(reference: Reference, scope: PlanScope): Partial {
  switch (reference.kind) {
    case 'today':
    case 'yesterday':
    case 'now':
      return scope.builtins?.[reference.kind] ?? new Hole('')
    case 'input': {
      const value = own(scope.inputs, reference.name)
      if (value === undefined && !scope.areInputsComplete) return new Hole(null)
      return value === undefined || value === null ? null : followKnown(value, reference.path, reference.text)
    }
    case 'uploaded_files':
      if (scope.uploadedFiles === undefined) return new Hole(null)
      return scope.uploadedFiles === null
        ? null
        : followKnown(scope.uploadedFiles, reference.path, reference.text)
    case 'item':
      return scope.item === undefined ? new Hole(null) : follow(scope.item, reference.path)
    case 'index':
      return scope.index ?? new Hole(null)
    case 'step':
      return scope.skipped.has(reference.stepId) ? null : new Hole(null)
    default:
      return new Hole(null)
  }
}

/** A path that is not there fails the step at run time, before any decision: anything may be said of it. */
function followKnown(value: Json, path: readonly string[], text: string): Partial {
  try {
    return descend(value, path, text)
  } catch (error) {
    if (error instanceof TemplateError) return new Hole(null)
    throw error
  }
}

function follow(value: Partial, path: readonly string[]): Partial {
  if (value === null) return null
  let at: Partial | undefined = value
  for (const segment of path) {
    if (at instanceof Hole || typeof at !== 'object' || at === null) return new Hole(null)
    const holder: object = at
    const isThere: boolean = isList(at) ? /^\d{1,9}$/.test(segment) : Object.hasOwn(holder, segment)
    at = isThere ? (at as { readonly [key: string]: Partial })[segment] : undefined
  }
  return at ?? new Hole(null)
}
