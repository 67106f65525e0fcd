import type { z } from 'zod'
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
  const parsed = schema.safeParse(value, { error: wordsFor(quotes) })
  if (parsed.success) return { ok: true, value: parsed.data }
  return { ok: false, issues: issuesOf(parsed.error.issues, []).slice(0, mostIssues) }
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
    issues.flatMap((issue) => (issue.code === 'invalid_type' ? [textOf(issue.path)] : [])),
  )
  return issues
    .filter((issue) => issue.code === 'invalid_type' || !isSize(issue) || !mistyped.has(textOf(issue.path)))
    .flatMap((issue) => issuesOfOne(issue, prefix))
}

const isSize = ({ code }: z.core.$ZodIssue): boolean => code === 'too_small' || code === 'too_big'

function issuesOfOne(issue: z.core.$ZodIssue, prefix: readonly PropertyKey[]): FieldIssue[] {
  const path = [...prefix, ...issue.path]
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key) => ({ path: textOf([...path, key]), message: unknownField }))
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    const branch = closestBranch(issue.errors)
    if (branch !== null) return issuesOf(branch, path)
  }
  return [{ path: textOf(path), message: issue.message }]
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

const textOf = (path: readonly PropertyKey[]): string => path.map(String).join('.')
