import type { z } from 'zod'
import type { ErrorDetail } from './errors.ts'

/** At most this many details: a body of a thousand mistakes needs no thousand lines. */
const mostDetails = 100

/** What a schema found wrong, as details of an error: each field by its dotted path, unknown ones by name. */
export function issuesOf(
  issues: readonly z.core.$ZodIssue[],
  prefix: readonly PropertyKey[] = [],
): ErrorDetail[] {
  return issues.flatMap((issue) => detailsOf(issue, prefix)).slice(0, mostDetails)
}

function detailsOf(issue: z.core.$ZodIssue, prefix: readonly PropertyKey[]): ErrorDetail[] {
  const path = [...prefix, ...issue.path]
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key) => ({ path: pathText([...path, key]), message: 'unknown field' }))
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    const branch = closestBranch(issue.errors)
    if (branch !== null) return issuesOf(branch, path)
  }
  return [{ path: pathText(path), message: plain(issue) }]
}

/** Of a union's branches the one that got furthest into the value: the one that was probably meant. */
function closestBranch(
  branches: readonly (readonly z.core.$ZodIssue[])[],
): readonly z.core.$ZodIssue[] | null {
  const depth = (issues: readonly z.core.$ZodIssue[]): number =>
    Math.min(...issues.map((issue) => issue.path.length))
  const deep = branches.filter((issues) => issues.length > 0 && depth(issues) > 0)
  return deep.sort((a, b) => depth(b) - depth(a) || a.length - b.length)[0] ?? null
}

function plain(issue: z.core.$ZodIssue): string {
  const message = issue.message
    .replace(/^Invalid input: /, '')
    .replace(/^Invalid input$/, 'has no form that is accepted')
  if (issue.code === 'invalid_type' && message.endsWith('received undefined')) return 'is missing'
  return message === '' ? 'is not valid' : message.charAt(0).toLowerCase() + message.slice(1)
}

const pathText = (path: readonly PropertyKey[]): string => path.map(String).join('.')
