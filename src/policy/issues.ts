import type { z } from 'zod'
import { list } from './text.ts'

/** `path` is dotted: `steps.2.params.to`. */
export interface FieldIssue {
  readonly path: string
  readonly message: string
}

type ReadAs<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly issues: FieldIssue[] }

interface ReadOptions {
  readonly quotes?: boolean
  readonly counts?: (issue: z.core.$ZodIssue) => boolean
}

export const mostIssues = 100

/** Every wrong and unknown field, up to `mostIssues`, but for `counts`. Without `quotes`, no value is shown. */
export function readAs<T>(
  schema: z.ZodType<T>,
  value: unknown,
  { quotes = true, counts = () => true }: ReadOptions = {},
): ReadAs<T> {
  boundReading(schema)
  const parsed = schema.safeParse(value, { error: wordsFor(quotes) })
  if (parsed.success) return { ok: true, value: parsed.data }
  // Two issues on one field may be merged into one.
  const first = parsed.error.issues.filter(counts).slice(0, 2 * mostIssues)
  return { ok: false, issues: issuesOf(first, []).slice(0, mostIssues) }
}

/** The first `most` issues and the number of others. `most` is larger where the answer lists none beside it. */
export function headline(what: string, issues: readonly FieldIssue[], most = 1): string {
  if (issues.length === 0) return what
  const first = issues.slice(0, most).map(({ message }) => message)
  const rest = issues.length > most ? ` (and ${issues.length - most} more)` : ''
  return `${what}: ${first.join('; ')}${rest}`
}

/** For messages that do not name their field. */
export function headlineWithField(what: string, issues: readonly FieldIssue[], most = 1): string {
  return headline(
    what,
    issues.map(({ path, message }) => ({ path, message: withField(path, message) })),
    most,
  )
}

function withField(path: string, message: string): string {
  if (path === '') return message
  if (message.startsWith(unknownField)) return `\`${path}\` is an ${message}`
  return /^(must|is|has) /.test(message) ? `\`${path}\` ${message}` : `\`${path}\`: ${message}`
}

function issuesOf(issues: readonly z.core.$ZodIssue[], prefix: readonly PropertyKey[]): FieldIssue[] {
  // A value of the wrong type also fails its length check.
  const mistyped = new Set(
    issues.flatMap((issue) => (issue.code === 'invalid_type' ? [shownPath(issue.path)] : [])),
  )
  return issues
    .filter(
      (issue) => issue.code === 'invalid_type' || !isSize(issue) || !mistyped.has(shownPath(issue.path)),
    )
    .flatMap((issue) => issuesOfOne(issue, prefix))
}

const isSize = ({ code }: z.core.$ZodIssue): boolean => code === 'too_small' || code === 'too_big'

function issuesOfOne(issue: z.core.$ZodIssue, prefix: readonly PropertyKey[]): FieldIssue[] {
  const path = [...prefix, ...issue.path]
  if (issue.code === 'unrecognized_keys')
    return issue.keys
      .slice(0, mostIssues)
      .map((key) => ({ path: shownPath([...path, key]), message: cut(issue.message, longestMessage) }))
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    const branch = closestBranch(issue.errors)
    if (branch !== null) return issuesOf(branch, path)
  }
  return [{ path: shownPath(path), message: cut(issue.message, longestMessage) }]
}

/** The one whose errors are deepest inside the value. An error at its top means another branch, unless of its type. */
function closestBranch(
  branches: readonly (readonly z.core.$ZodIssue[])[],
): readonly z.core.$ZodIssue[] | null {
  const depth = (issues: readonly z.core.$ZodIssue[]): number =>
    Math.min(...issues.map((issue) => issue.path.length))
  const meant = branches.filter(
    (issues) => issues.length > 0 && (depth(issues) > 0 || !issues.some(isOfAnotherKind)),
  )
  return meant.sort((a, b) => depth(b) - depth(a) || a.length - b.length)[0] ?? null
}

const isOfAnotherKind = ({ code, path }: z.core.$ZodIssue): boolean =>
  path.length === 0 && (code === 'invalid_type' || code === 'invalid_value' || code === 'invalid_union')

/** A name in a path, a path, and a message. Longer texts are cut. */
const [longestName, longestPath, longestMessage] = [100, 1_000, 1_000]

export function shownPath(way: readonly PropertyKey[]): string {
  return cut(way.map((part) => cut(String(part), longestName)).join('.'), longestPath)
}

const cut = (text: string, most: number): string =>
  text.length <= most ? text : `${text.slice(0, most).toWellFormed()}…`

type RawIssue = z.core.$ZodRawIssue
type SizeIssue = Extract<RawIssue, { code: 'too_small' | 'too_big' }>

/** For an issue without a message: what the value must be. `quotes` must be false for values from a template. */
const wordsFor =
  (quotes: boolean) =>
  (issue: RawIssue): string => {
    const shown = quotes && isShort(issue.input) ? issue.input : undefined
    switch (issue.code) {
      case 'invalid_type':
        return issue.input === undefined ? 'is missing' : wrongType(issue.expected, issue.input, shown)
      case 'invalid_value':
        return oneOf(issue.values, issue.input, shown)
      case 'too_small':
      case 'too_big':
        return sizeOf(issue)
      case 'invalid_format':
        return formats[issue.format] ?? `must be a valid ${issue.format}`
      case 'not_multiple_of':
        return `must be a multiple of ${issue.divisor}`
      case 'unrecognized_keys':
        return `${unknownField}${insteadOf(issue.inst)}`
      case 'invalid_union':
        return wordsForUnion(issue, quotes)
      case 'invalid_key':
        return `has a name that cannot be used: ${issue.issues[0]?.message ?? 'choose another'}`
      default:
        return 'does not have an accepted form'
    }
  }

const unknownField = 'unknown field'

function insteadOf(schema: RawIssue['inst']): string {
  const { _zod: internals } = schema ?? {}
  if (internals === undefined || !('shape' in internals.def)) return ''
  const names = Object.keys((internals.def as z.core.$ZodObjectDef).shape)
  if (names.length === 0) return ': there are no fields here'
  return `: write ${anyOf(names)}`
}

type Shown = string | number | undefined

const kinds: Readonly<Record<string, string>> = {
  array: 'a list',
  object: 'an object',
  record: 'an object',
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: '`true` or `false`',
  null: 'null',
}

const formats: Readonly<Record<string, string>> = {
  datetime: 'must be a time in ISO 8601, e.g. `2026-01-31T00:00:00Z`',
  date: 'must be a date, e.g. `2026-01-31`',
  email: 'must be an e-mail address',
  url: 'must be a URL',
}

/** `typeof` does not distinguish objects, lists and null. */
function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (typeof value === 'boolean') return `\`${value}\``
  return (Array.isArray(value) ? 'a list' : kinds[typeof value]) ?? 'something else'
}

function wrongType(expected: string, input: unknown, shown: Shown): string {
  // The most common mistake is one value in place of a list. It may be a parameter, which not everybody may see
  // (docs/decisions/0088), so it is not repeated.
  if (expected === 'array' && shown !== undefined)
    return 'must be a list: write `[` before it and `]` after it'
  if (expected === 'int' && typeof input === 'number') return `must be a whole number${not(input, shown)}`
  return `must be ${kinds[expected] ?? expected}, not ${kindOf(input)}`
}

const isShort = (input: unknown): input is string | number =>
  typeof input === 'number' || (typeof input === 'string' && /^[^`\p{C}]{1,40}$/u.test(input))

const not = (input: unknown, shown: Shown): string =>
  `, not ${shown === undefined ? kindOf(input) : `\`${shown}\``}`

function oneOf(values: readonly unknown[], input: unknown, shown: Shown): string {
  if (input === undefined) return `is missing: give ${anyOf(values)}`
  return `must be ${anyOf(values)}${typeof input === 'string' && shown === undefined ? '' : not(input, shown)}`
}

const anyOf = (values: readonly unknown[]): string =>
  list(
    values.map((value) => `\`${String(value)}\``),
    'or',
    Infinity,
  )

function sizeOf(issue: SizeIssue): string {
  const [bound, word, inclusive] =
    issue.code === 'too_small'
      ? [issue.minimum, 'at least', issue.inclusive]
      : [issue.maximum, 'at most', issue.inclusive]
  const number = bound.toLocaleString('en-US')
  if (issue.origin === 'string')
    return issue.code === 'too_small' && bound === 1
      ? 'must not be empty'
      : `must have ${word} ${number} characters`
  if (issue.origin === 'array') return `must have ${word} ${number} ${bound === 1 ? 'entry' : 'entries'}`
  if (inclusive !== false) return `must be ${word} ${number}`
  return `must be ${issue.code === 'too_small' ? 'more' : 'less'} than ${number}`
}

function wordsForUnion(issue: Extract<RawIssue, { code: 'invalid_union' }>, quotes: boolean): string {
  const { discriminator, options, input } = issue as {
    discriminator?: string
    options?: readonly unknown[]
    input?: Record<string, unknown>
  }
  if (discriminator !== undefined) {
    const given = input?.[discriminator]
    return oneOf(options ?? [], given, quotes && isShort(given) ? given : undefined)
  }
  if (input === undefined) return 'is missing'
  const branches = issue.errors.flat()
  const own = branches.find((each) => each.code === 'custom')
  if (own !== undefined) return own.message
  const expected = branches.flatMap((each) =>
    each.code === 'invalid_type' && each.path.length === 0 ? [kinds[each.expected] ?? each.expected] : [],
  )
  if (expected.length === 0) return 'does not have an accepted form'
  return `must be ${list([...new Set(expected)], 'or', Infinity)}, not ${kindOf(input)}`
}

type Parse = z.core.$ZodTypeInternals['parse']

const prepared = new WeakSet<z.core.$ZodType>()

/**
 * Bounds the time in which a schema checks a value, by changing it and all its parts (docs/decisions/0066). The check
 * of a list stops at the hundredth issue: 100,000 issues took half a second, and a stack overflow made the answer a
 * 500. A text that is too long gets no other checks: similar tool names for a megabyte took half a second too.
 */
export function boundReading(schema: z.core.$ZodType): void {
  if (prepared.has(schema)) return
  prepared.add(schema)
  for (const part of partsOf(schema)) boundReading(part)
  const { _zod: internals } = schema
  const { checks = [] } = internals.def
  if (internals.def.type === 'string')
    for (const { _zod } of checks) if (isLongest(_zod.def)) Object.assign(_zod.def, { abort: true })
  if (internals.def.type !== 'array') return
  const { element } = internals.def as z.core.$ZodArrayDef
  const longest = Math.min(...checks.map(({ _zod }) => (isLongest(_zod.def) ? _zod.def.maximum : Infinity)))
  // zod replaces the parser after its first use. This wrapper stays in front of both.
  let { parse } = internals
  const ours = parseOf(element, (payload, context) => parse(payload, context), longest)
  const inFront = { get: () => ours, set: (other: Parse) => (parse = other), configurable: true }
  // Without checks, `run` is the parser itself.
  const runsParser = internals.run === parse
  Object.defineProperty(internals, 'parse', inFront)
  if (runsParser) Object.defineProperty(internals, 'run', inFront)
}

const isLongest = (def: z.core.$ZodCheckDef): def is z.core.$ZodCheckMaxLengthDef =>
  def.check === 'max_length'

function parseOf({ _zod: entry }: z.core.$ZodType, parse: Parse, longest: number): Parse {
  return (payload, context) => {
    const given: unknown = payload.value
    const isOneIssue = !Array.isArray(given) || given.length > longest
    if (isOneIssue || given.length <= mostIssues) return parse(payload, context)
    const read: unknown[] = []
    for (const [index, value] of given.entries()) {
      const result = entry.run({ value, issues: [] }, context)
      if (result instanceof Promise)
        throw new TypeError('schemas for outside values must not be asynchronous')
      read.push(result.value)
      for (const issue of result.issues)
        payload.issues.push({ ...issue, path: [index, ...(issue.path ?? [])] })
      if (payload.issues.length >= mostIssues) break
    }
    payload.value = read
    return payload
  }
}

function partsOf({ _zod }: z.core.$ZodType): z.core.$ZodType[] {
  const def = _zod.def as {
    readonly shape?: Readonly<Record<string, z.core.$ZodType>>
    readonly options?: readonly z.core.$ZodType[]
  } & Partial<
    Record<'innerType' | 'in' | 'out' | 'element' | 'keyType' | 'valueType' | 'catchall', z.core.$ZodType>
  >
  const { innerType, in: from, out, element, keyType, valueType, catchall } = def
  const parts = [innerType, from, out, element, keyType, valueType, catchall, ...(def.options ?? [])]
  return [...parts.filter((part) => part !== undefined), ...Object.values(def.shape ?? {})]
}
