import type { z } from 'zod'
import { boundReading } from './bounded-reading.ts'
import { wordsFor } from './issue-words.ts'

/** One thing wrong with what a caller sent; `path` is dotted, e.g. `steps.2.params.to`. */
export interface FieldIssue {
  readonly path: string
  readonly message: string
}

export type ReadAs<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly issues: FieldIssue[] }

/** At most this many issues: a body of a thousand mistakes needs no thousand lines. */
const mostIssues = 100

/**
 * The value as the schema reads it, or everything that is wrong with it: each field by its dotted path, unknown ones by
 * name, in the product's words. Every value a caller sends is read through here. Without `quotes` no issue shows a
 * part of the value.
 */
export function readAs<T>(schema: z.ZodType<T>, value: unknown, { quotes = true } = {}): ReadAs<T> {
  boundReading(schema)
  const parsed = schema.safeParse(value, { error: wordsFor(quotes) })
  if (parsed.success) return { ok: true, value: parsed.data }
  // Of two issues on one field one may say nothing new.
  const first = parsed.error.issues.slice(0, 2 * mostIssues)
  return { ok: false, issues: issuesOf(first, []).slice(0, mostIssues) }
}

/** What an error says in one line: the first issue, and how many there are beside it. */
export function headline(what: string, issues: readonly FieldIssue[]): string {
  const [first] = issues
  if (first === undefined) return what
  const rest = issues.length > 1 ? ` (and ${issues.length - 1} more)` : ''
  return `${what}: ${first.message}${rest}`
}

/** The same where the messages do not name their field themselves. */
export function headlineWithField(what: string, issues: readonly FieldIssue[]): string {
  return headline(
    what,
    issues.map(({ path, message }) => ({ path, message: withField(path, message) })),
  )
}

function withField(path: string, message: string): string {
  if (path === '') return message
  if (message === unknownField) return `\`${path}\` is an ${message}`
  return /^(must|is|has) /.test(message) ? `\`${path}\` ${message}` : `\`${path}\`: ${message}`
}

const unknownField = 'unknown field'

function issuesOf(issues: readonly z.core.$ZodIssue[], prefix: readonly PropertyKey[]): FieldIssue[] {
  // A value of the wrong type has no length either: one message about it is enough.
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
      .map((key) => ({ path: shownPath([...path, key]), message: unknownField }))
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    const branch = closestBranch(issue.errors)
    if (branch !== null) return issuesOf(branch, path)
  }
  return [{ path: shownPath(path), message: cut(issue.message, longestMessage) }]
}

/** Of a union's branches the one that got furthest into the value, or that at least has its type: the one meant. */
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

/** Characters that a name has in a path, a path as a whole and a message, before they are cut. */
const [longestName, longestPath, longestMessage] = [100, 1_000, 1_000]

/** A dotted path as an issue names it: names, and the whole of it, are cut where they are long. */
export function shownPath(way: readonly PropertyKey[]): string {
  return cut(way.map((part) => cut(String(part), longestName)).join('.'), longestPath)
}

const cut = (text: string, most: number): string =>
  text.length <= most ? text : `${text.slice(0, most).toWellFormed()}…`
