import type { z } from 'zod'
import { boundReading } from './bounded-reading.ts'
import { unknownField, wordsFor } from './issue-words.ts'

/** One error in a caller's value. `path` is dotted, e.g. `steps.2.params.to`. */
export interface FieldIssue {
  readonly path: string
  readonly message: string
}

export type ReadAs<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly issues: FieldIssue[] }

export interface ReadOptions {
  readonly quotes?: boolean
  readonly counts?: (issue: z.core.$ZodIssue) => boolean
}

/** Maximum number of issues in one answer. */
const mostIssues = 100

/**
 * Parses a value from outside with a schema. If the value is invalid, returns an issue for every wrong and every
 * unknown field, up to `mostIssues`. If `quotes` is false, no issue shows a part of the value. Issues for which
 * `counts` returns false are left out.
 */
export function readAs<T>(
  schema: z.ZodType<T>,
  value: unknown,
  { quotes = true, counts = () => true }: ReadOptions = {},
): ReadAs<T> {
  boundReading(schema)
  const parsed = schema.safeParse(value, { error: wordsFor(quotes) })
  if (parsed.success) return { ok: true, value: parsed.data }
  // Two issues on one field may be merged into one, so twice the maximum is read.
  const first = parsed.error.issues.filter(counts).slice(0, 2 * mostIssues)
  return { ok: false, issues: issuesOf(first, []).slice(0, mostIssues) }
}

/**
 * Returns one line for an error. The line contains the first `most` issues and the number of further issues. If the
 * answer does not list the issues beside this line, use a larger `most`.
 */
export function headline(what: string, issues: readonly FieldIssue[], most = 1): string {
  if (issues.length === 0) return what
  const first = issues.slice(0, most).map(({ message }) => message)
  const rest = issues.length > most ? ` (and ${issues.length - most} more)` : ''
  return `${what}: ${first.join('; ')}${rest}`
}

/** Like `headline`, but adds the field to each message. Use this function for messages that do not name their field. */
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
  // A value of the wrong type also fails its length check. The message about the type is enough.
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

/**
 * Returns the branch of a union schema that the caller probably meant: the branch whose errors are deepest inside the
 * value. A branch with an error at the top of the value counts only if the value has the type of the branch.
 */
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

/** The longest name in a path, the longest path, and the longest message, in characters. Longer texts are cut. */
const [longestName, longestPath, longestMessage] = [100, 1_000, 1_000]

/** Returns a dotted path for an issue. Cuts long names and long paths. */
export function shownPath(way: readonly PropertyKey[]): string {
  return cut(way.map((part) => cut(String(part), longestName)).join('.'), longestPath)
}

const cut = (text: string, most: number): string =>
  text.length <= most ? text : `${text.slice(0, most).toWellFormed()}…`
