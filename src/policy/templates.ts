import type { Builtins } from './builtins.ts'
import { isTemplate, parseText, referencesOf, type Part } from './template-syntax.ts'
import { Budget, BudgetExceeded } from './budget.ts'
import { asText } from './expressions/as-text.ts'
import { evaluate, Missing } from './expressions/evaluate.ts'
import type { Expression } from './expressions/syntax.ts'
import {
  MissingPath,
  operatorHint,
  pathAt,
  TemplateError,
  type Reference,
  type Roots,
  type WithPath,
} from './reference.ts'
import type { Json, JsonObject } from './types.ts'

/** Characters that the templates of one value, or of a whole plan under analysis, may produce. */
export const mostResolvedText = 32 * 1024 * 1024

/** If a reference occurs twice, its characters count twice. */
export class TextBudget {
  #left: number
  constructor(characters: number = mostResolvedText) {
    this.#left = characters
  }
  get isUsedUp(): boolean {
    return this.#left < 0
  }
  /** False once more characters have been taken than allowed. */
  take(characters: number): boolean {
    this.#left -= characters
    return !this.isUsedUp
  }
  /** Takes about the length of the value's JSON; false once the budget is used up. */
  takeValue(value: Json): boolean {
    const waiting: Json[] = [value]
    for (let each = waiting.pop(); each !== undefined && !this.isUsedUp; each = waiting.pop()) {
      this.take(typeof each === 'string' ? each.length : 1)
      if (typeof each !== 'object' || each === null) continue
      for (const [key, child] of Object.entries(each)) {
        this.take(1 + key.length)
        waiting.push(child)
      }
    }
    return !this.isUsedUp
  }
}

export { references } from './template-syntax.ts'
export { asText } from './expressions/as-text.ts'
export { MissingPath, TemplateError } from './reference.ts'

/** What templates read of a step beside its output. */
export interface StepState {
  readonly status: string
  /** Null if no person was asked. */
  readonly approval: { readonly verdict: string; readonly comment: string; readonly by: string | null } | null
}

export interface Scope {
  readonly inputs: JsonObject
  /** Null if the step was skipped, undefined if it has no output yet. */
  step(id: string): Json | undefined
  readonly item?: Json | undefined
  readonly index?: number | undefined
  /** The sources of the list of `for_each`, and so of `{{item}}`. */
  readonly itemSources?: readonly string[] | undefined
  /** A reference to such an input has `inputSource(name)` as its source. */
  readonly labelledInputs?: ReadonlyMap<string, unknown> | undefined
  /** Only for steps that the templates ask about. */
  readonly state?: ((id: string) => StepState | undefined) | undefined
  readonly builtins: Builtins
  /** Names that stand for whole values, which are among `inputs`; then there are no steps. */
  readonly roots?: Roots | undefined
  /** If true, a path that leads to nothing gives null. If absent, such a path is an error. */
  readonly missingIsNull?: boolean | undefined
}

export interface Resolved {
  readonly value: Json
  /** By dotted path: steps, and inputs with labels. The empty path is the value itself. */
  readonly sources: ReadonlyMap<string, readonly string[]>
}

/**
 * A text that is exactly one reference keeps the type of its value. Inside a longer text, null is empty, and
 * lists and objects are JSON. Filled-in text is not parsed again. An absent input, a null item and a skipped
 * step give null. Throws TemplateError for a malformed reference, a missing path (see `missingIsNull`) or
 * output, an item without `for_each`, an absent input in a longer text (docs/decisions/0087), and more than
 * `mostText` characters, unless `value` itself is one reference. `budget`: several values can share one.
 */
export function resolve(
  value: Json,
  scope: Scope,
  mostText: number = mostResolvedText,
  budget: Budget = new Budget(expressionBudget),
): Resolved {
  const sources = new Map<string, readonly string[]>()
  const textBudget = new TextBudget(mostText)
  return {
    value: resolveAt(value, '', { scope, sources, textBudget, mostText, budget }),
    sources,
  }
}

/** Units for all expressions of one value. One million take about a tenth of a second. */
export const expressionBudget = 2_000_000

/** No step has this id, because ids have no dot. */
export const inputSource = (name: string): string => `input.${name}`

interface Resolving {
  readonly scope: Scope
  readonly sources: Map<string, readonly string[]>
  readonly textBudget: TextBudget
  readonly mostText: number
  readonly budget: Budget
}

function resolveAt(value: Json, path: string, resolving: Resolving): Json {
  if (typeof value === 'string') return isTemplate(value) ? resolveText(value, path, resolving) : value
  if (typeof value !== 'object' || value === null) return value
  const below = (key: string | number) => (path === '' ? String(key) : `${path}.${key}`)
  if (Array.isArray(value)) {
    return (value as readonly Json[]).map((each, index) => resolveAt(each, below(index), resolving))
  }
  // fromEntries defines properties and never calls setters, so `__proto__` is a key like any other.
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [key, resolveAt(each, below(key), resolving)]),
  )
}

function resolveText(text: string, path: string, resolving: Resolving): Json {
  const { scope, sources, textBudget, mostText } = resolving
  const parts = parseText(text, scope.roots)
  const from = sourcesOf(parts, scope)
  if (from.length > 0) sources.set(path, from)
  const [only] = parts
  if (parts.length === 1 && only !== undefined && typeof only !== 'string') {
    const value = only.kind === 'expression' ? computed(only, resolving) : lookUp(only, scope)
    if (path !== '' && !textBudget.takeValue(value)) throw tooLong(mostText)
    return value
  }
  let resolved = ''
  for (const part of parts) {
    const piece = pieceOf(part, resolving)
    if (!textBudget.take(piece.length)) throw tooLong(mostText)
    resolved += piece
  }
  return resolved
}

function pieceOf(part: Part, resolving: Resolving): string {
  if (typeof part === 'string') return part
  if (part.kind === 'expression') return asText(computed(part, resolving))
  return textFor(part, givenOf(part, resolving.scope))
}

function sourcesOf(parts: readonly Part[], scope: Scope): string[] {
  const from = new Set<string>()
  for (const part of parts) {
    if (typeof part === 'string') continue
    for (const reference of referencesOf(part)) {
      if (reference.kind === 'step') from.add(reference.stepId)
      if (reference.kind === 'item') for (const id of scope.itemSources ?? []) from.add(id)
      if (reference.kind === 'input' && scope.labelledInputs?.has(reference.name) === true)
        from.add(inputSource(reference.name))
    }
  }
  return [...from].sort()
}

/** Throws TemplateError. */
function computed({ node, text }: Expression, { scope, budget }: Resolving): Json {
  const read = (reference: Reference): Json | Missing => {
    try {
      return valueOf(reference, scope)
    } catch (error) {
      if (error instanceof MissingPath) return new Missing(error.message)
      throw error
    }
  }
  try {
    // Without a hole among the values, the result has none.
    const value = evaluate(node, { read, budget, mayLack: false }) as Json | Missing
    if (!(value instanceof Missing)) return value
    if (scope.missingIsNull === true) return null
    throw new MissingPath(value.message)
  } catch (error) {
    if (error instanceof BudgetExceeded)
      throw new TemplateError(
        `\`${shortened(text)}\` takes too many steps: filter the list first, or use more steps`,
      )
    if (error instanceof TypeError) throw new TemplateError(`\`${shortened(text)}\`: ${error.message}`)
    throw error
  }
}

const shortened = (text: string): string => (text.length > 100 ? `${text.slice(0, 99)}…` : text)

/** Throws TemplateError for an input that was not given. */
function givenOf(reference: Reference, scope: Scope): Json {
  const missing = missingInput(reference, scope.inputs)
  if (missing !== null)
    throw new TemplateError(
      `\`${reference.text}\`: the run was started without the input \`${missing}\`, and this text needs it: ` +
        'give it, or declare a `default`; a step can also have a `when` with `exists`',
    )
  return lookUp(reference, scope)
}

/** An optional input without a value and without a default. Null for every other reference. */
export function missingInput(reference: Reference, inputs: JsonObject): string | null {
  return reference.kind === 'input' && (givenInput(inputs, reference.name) ?? null) === null
    ? reference.name
    : null
}

function tooLong(most: number): TemplateError {
  return new TemplateError(`resolves to more than ${most / 1024 / 1024} MiB`)
}

/** Like `asText`, but a reference to all uploaded files becomes the texts of these files. */
export function textFor(reference: Reference, value: Json): string {
  const isFiles = reference.kind === 'input' && reference.name === filesInput && reference.path.length === 0
  return isFiles ? textOfFiles(value) : asText(value)
}

function lookUp(reference: Reference, scope: Scope): Json {
  if (scope.missingIsNull !== true) return valueOf(reference, scope)
  try {
    return valueOf(reference, scope)
  } catch (error) {
    if (error instanceof MissingPath) return null
    throw error
  }
}

function valueOf(reference: Reference, scope: Scope): Json {
  switch (reference.kind) {
    case 'input': {
      // An optional input that was not given is null, and so is every path in it.
      const value = givenInput(scope.inputs, reference.name)
      if (value === undefined || value === null) return null
      const path = pathOf(reference, scope)
      const missing = reference.name === filesInput ? missingOfFiles(value, path) : null
      if (missing !== null) throw new MissingPath(`\`${reference.text}\`: ${missing}`)
      return descend(value, path, reference.text)
    }
    case 'item':
      if (scope.item === undefined) throw outsideForEach(reference.text)
      return scope.item === null ? null : descend(scope.item, pathOf(reference, scope), reference.text)
    case 'index':
      if (scope.index === undefined) throw outsideForEach(reference.text)
      return scope.index
    case 'step': {
      if (reference.of !== 'output') return stateOf(reference, scope)
      const output = scope.step(reference.stepId)
      if (output === undefined) {
        throw new TemplateError(`\`${reference.text}\`: step \`${reference.stepId}\` has no output`)
      }
      const path = pathOf(reference, scope)
      return isNothing(output, path) ? null : descend(output, path, reference.text)
    }
    case 'unknown':
      throw new TemplateError(
        `\`${reference.text}\` is not a reference: write for example \`{{steps.ID.output}}\``,
      )
    default:
      return scope.builtins[reference.kind]
  }
}

function stateOf(reference: Extract<Reference, { kind: 'step' }>, { state, index }: Scope): Json {
  const { stepId, of, text } = reference
  const found = state?.(stepId)
  if (found === undefined) throw new TemplateError(`\`${text}\`: step \`${stepId}\` has not ended`)
  if (of === 'status') return found.status
  return found.approval === null ? null : descend(found.approval, pathOf(reference, { index }), text)
}

/** Throws TemplateError if the path has `[index]` and there is no item. */
function pathOf({ path, text }: WithPath, { index }: Pick<Scope, 'index'>): readonly string[] {
  const filled = pathAt(path, index)
  if (filled === null) throw outsideForEach(text)
  return filled
}

/** Null stands for a step or item that was skipped, or that failed with `on_error: continue`. */
function isNothing(output: Json, [first]: readonly string[]): boolean {
  if (output === null) return true
  return Array.isArray(output) && first !== undefined && own(output, first) === null
}

/** Through own properties and list positions. Throws MissingPath with the name of the missing segment. */
export function descend(value: Json, path: readonly string[], text: string): Json {
  let at = value
  for (const segment of path) {
    const below = own(at, segment)
    if (below === undefined)
      throw new MissingPath(`\`${text}\`: there is no \`${segment}\` in the value${hintOn(at, segment)}`)
    at = below
  }
  return at
}

/** Undefined if the path is missing: an error for each reference would cost much more. */
export function valueAt(value: Json, path: readonly string[]): Json | undefined {
  let at: Json | undefined = value
  for (const segment of path) {
    if (at === undefined) return undefined
    at = own(at, segment)
  }
  return at
}

/** Only names the field `<name>_problem`: its text may come from outside, where anybody can write it. */
const hintOn = (value: Json, segment: string): string =>
  own(value, `${segment}_problem`) === undefined
    ? operatorHint(segment)
    : `: its \`${segment}_problem\` says why`

/** Properties of the prototype and `length` are not readable. */
export function own(value: Json, key: string): Json | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (Array.isArray(value)) return /^\d{1,9}$/.test(key) ? (value as readonly Json[])[Number(key)] : undefined
  return Object.hasOwn(value, key) ? (value as JsonObject)[key] : undefined
}

function outsideForEach(text: string): TemplateError {
  return new TemplateError(`\`${text}\` only has a value in a step with \`for_each\``)
}

/* Templates read the uploaded files of a run as `{{input.uploaded_files}}`, which no definition declares. */

export const filesInput = 'uploaded_files'

export interface UploadedFile {
  readonly id: string
  readonly name: string
  readonly media_type: string
  readonly size: number
  readonly text: string
  /** Absent for a file without rows, so that a `for_each` over them fails instead of doing nothing. */
  readonly rows?: Json
}

/** Undefined if it was not given. Without files, `uploaded_files` is an empty list. */
export function givenInput(inputs: JsonObject, name: string): Json | undefined {
  if (Object.hasOwn(inputs, name)) return inputs[name]
  return name === filesInput ? [] : undefined
}

/** Stands for all files inside a longer text. */
export function textOfFiles(files: Json): string {
  if (!Array.isArray(files)) return ''
  return (files as unknown as readonly UploadedFile[])
    .map(({ name, text }) => `File: ${name}\n\n${text}`)
    .join('\n\n')
}

/** Why a path has no value: a file that does not exist, or the rows of a file without rows. */
export function missingOfFiles(files: Json, [position, field]: readonly string[]): string | null {
  if (!Array.isArray(files) || position === undefined || !/^\d{1,9}$/.test(position)) return null
  const file = (files as unknown as readonly UploadedFile[])[Number(position)]
  if (file === undefined)
    return `the run has ${files.length === 1 ? '1 file' : `${files.length} files`}, and [0] is the first`
  if (field !== 'rows' || file.rows !== undefined) return null
  return 'the file has no rows: only CSV and XLSX files have them, up to a limit of size'
}
