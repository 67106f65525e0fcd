import { type Reference, isTemplate, parseText } from './template-syntax.ts'
import { mostResolvedText, TextRoom } from './text-room.ts'
import type { Json, JsonObject } from './types.ts'

export { references } from './template-syntax.ts'
export { builtins } from './builtins.ts'
export { mostResolvedText } from './text-room.ts'

/** A template that cannot be resolved; the message names the reference and says what is wrong with it. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError'
}

/** Where references find their values. */
export interface Scope {
  readonly inputs: JsonObject
  readonly uploadedFiles?: Json | undefined
  /** The step's output (null if it was skipped), or undefined while there is none. */
  step(id: string): Json | undefined
  readonly item?: Json | undefined
  readonly index?: number | undefined
  /** The steps that `for_each` was built from: what `{{item}}` brings along. */
  readonly itemSources?: readonly string[] | undefined
  /** Inputs that carry labels: what a reference to one brings along is `inputSource` of its name. */
  readonly labelledInputs?: ReadonlyMap<string, unknown> | undefined
  readonly today: string
  readonly yesterday: string
  readonly now: string
}

export interface Resolved {
  readonly value: Json
  /** Dotted path in the value (`` for the value itself) → the steps, and the inputs with labels, it was built from. */
  readonly sources: ReadonlyMap<string, readonly string[]>
}

/**
 * Fills in every `{{...}}` of a value, in lists and objects too (contract section 3). A text that is one whole
 * reference keeps the type of what it names; inside text, values become text: null the empty one, lists and objects
 * JSON. What is filled in is never scanned for templates again. Everything in the null of a step or item without an
 * output is null. Throws TemplateError for a path that an existing value does not have, a step without an output, a
 * malformed reference, and once more than `mostText` characters have been filled in (a value that is one whole reference is
 * handed on as it is, at any size).
 */
export function resolve(value: Json, scope: Scope, mostText: number = mostResolvedText): Resolved {
  const sources = new Map<string, readonly string[]>()
  const room = new TextRoom(mostText)
  return { value: resolveAt(value, '', { scope, sources, room, mostText }), sources }
}

/** How an input is named among the sources of a value; no step's id has a dot. */
export const inputSource = (name: string): string => `input.${name}`

interface Resolving {
  readonly scope: Scope
  readonly sources: Map<string, readonly string[]>
  readonly room: TextRoom
  readonly mostText: number
}

function resolveAt(value: Json, path: string, resolving: Resolving): Json {
  if (typeof value === 'string') return isTemplate(value) ? resolveText(value, path, resolving) : value
  if (typeof value !== 'object' || value === null) return value
  const below = (key: string | number) => (path === '' ? String(key) : `${path}.${key}`)
  if (Array.isArray(value)) {
    return (value as readonly Json[]).map((each, index) => resolveAt(each, below(index), resolving))
  }
  // fromEntries defines properties instead of setting them: a `__proto__` key stays a plain key.
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [key, resolveAt(each, below(key), resolving)]),
  )
}

function resolveText(text: string, path: string, { scope, sources, room, mostText }: Resolving): Json {
  const parts = parseText(text)
  const from = new Set<string>()
  for (const part of parts) {
    if (typeof part === 'string') continue
    if (part.kind === 'step') from.add(part.stepId)
    if (part.kind === 'item') for (const id of scope.itemSources ?? []) from.add(id)
    if (part.kind === 'input' && scope.labelledInputs?.has(part.name) === true)
      from.add(inputSource(part.name))
  }
  if (from.size > 0) sources.set(path, [...from].sort())
  const [only] = parts
  if (parts.length === 1 && only !== undefined && typeof only !== 'string') {
    const value = lookUp(only, scope)
    if (path !== '' && !room.takeValue(value)) throw tooLong(mostText)
    return value
  }
  let resolved = ''
  for (const part of parts) {
    const piece = typeof part === 'string' ? part : asText(lookUp(part, scope))
    if (!room.take(piece.length)) throw tooLong(mostText)
    resolved += piece
  }
  return resolved
}

function tooLong(most: number): TemplateError {
  return new TemplateError(`resolves to more than ${most / 1024 / 1024} MiB`)
}

/** How a value reads inside text. */
export function asText(value: Json): string {
  if (value === null) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function lookUp(reference: Reference, scope: Scope): Json {
  switch (reference.kind) {
    case 'today':
    case 'yesterday':
    case 'now':
      return scope[reference.kind]
    case 'input': {
      // An optional input that was not given is null, and so is everything in it.
      const value = own(scope.inputs, reference.name)
      return value === undefined || value === null ? null : descend(value, reference.path, reference.text)
    }
    case 'uploaded_files':
      return scope.uploadedFiles === undefined || scope.uploadedFiles === null
        ? null
        : descend(scope.uploadedFiles, reference.path, reference.text)
    case 'item':
      if (scope.item === undefined) throw outsideForEach(reference.text)
      return scope.item === null ? null : descend(scope.item, reference.path, reference.text)
    case 'index':
      if (scope.index === undefined) throw outsideForEach(reference.text)
      return scope.index
    case 'step': {
      const output = scope.step(reference.stepId)
      if (output === undefined) {
        throw new TemplateError(`\`${reference.text}\`: step \`${reference.stepId}\` has no output`)
      }
      return isNothing(output, reference.path) ? null : descend(output, reference.path, reference.text)
    }
    default:
      throw new TemplateError(
        `\`${reference.text}\` is not a reference: write for example \`{{steps.ID.output}}\``,
      )
  }
}

/**
 * Whether an output's path leads into nothing: a step that was skipped, or failed with `on_error: continue`, has null,
 * an item of a `for_each` step has null in its place of the list, and so is everything in it.
 */
function isNothing(output: Json, [first]: readonly string[]): boolean {
  if (output === null) return true
  return Array.isArray(output) && first !== undefined && own(output, first) === null
}

/** Follows a path by own properties and list positions; throws TemplateError naming the segment that is not there. */
export function descend(value: Json, path: readonly string[], text: string): Json {
  let at = value
  for (const segment of path) {
    const below = own(at, segment)
    if (below === undefined) throw new TemplateError(`\`${text}\`: there is no \`${segment}\` in the value`)
    at = below
  }
  return at
}

/** An own property or a list position; never what a prototype offers, nor a list's or text's length. */
export function own(value: Json, key: string): Json | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (Array.isArray(value)) return /^\d{1,9}$/.test(key) ? (value as readonly Json[])[Number(key)] : undefined
  return Object.hasOwn(value, key) ? (value as JsonObject)[key] : undefined
}

function outsideForEach(text: string): TemplateError {
  return new TemplateError(`\`${text}\` only has a value in a step with \`for_each\``)
}
