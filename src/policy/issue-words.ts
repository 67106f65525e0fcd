import type { z } from 'zod'

type RawIssue = z.core.$ZodRawIssue
type SizeIssue = Extract<RawIssue, { code: 'too_small' | 'too_big' }>

/**
 * Returns the message for a zod issue whose schema has no message of its own. The message says what the value must be.
 * `quotes` says whether the message may show a short value in backticks. It must be false for values that a template
 * filled in.
 */
export const wordsFor =
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

/** The message for an unknown field starts with these words. */
export const unknownField = 'unknown field'

/** Returns the end of the message for an unknown field. It names the fields that the object may have. */
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

/**
 * Returns the type of a value in words. `typeof` is not enough, because it does not distinguish objects, lists and
 * null.
 */
function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (typeof value === 'boolean') return `\`${value}\``
  return (Array.isArray(value) ? 'a list' : kinds[typeof value]) ?? 'something else'
}

function wrongType(expected: string, input: unknown, shown: Shown): string {
  // The most common mistake is one value in place of a list. The message does not repeat the value, because the value
  // may be a call's parameter, which not everybody may see (docs/decisions/0088).
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

const anyOf = (values: readonly unknown[]): string => either(values.map((value) => `\`${String(value)}\``))

function either(words: readonly string[]): string {
  const [last = '', ...rest] = words.toReversed()
  return rest.length === 0 ? last : `${rest.toReversed().join(', ')} or ${last}`
}

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
  return `must be ${either([...new Set(expected)])}, not ${kindOf(input)}`
}
