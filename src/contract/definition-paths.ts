import { shownPath } from '../policy/issues.ts'
import type { WorkflowDefinition } from './definition.ts'
import type { Issue } from './json.ts'

/**
 * The unit is characters. V8 hashes a text with more than 16,383 characters by its length only. Every
 * template is stored under its path, so many long paths would take quadratic time.
 */
export const longestPath = 2_000
const mostIssues = 10

/** Returns at most ten issues. Does not look inside a value whose path is too long. */
export function pathIssues({ steps, result }: Pick<WorkflowDefinition, 'steps' | 'result'>): Issue[] {
  const issues: Issue[] = []
  const way: string[] = []
  const visit = (value: unknown, length: number): void => {
    if (length > longestPath) {
      const most = longestPath.toLocaleString('en-US')
      const message = `the names on the way to this value have more than ${most} characters together: shorten them`
      issues.push({ path: shownPath(way), message })
      return
    }
    if (typeof value !== 'object' || value === null) return
    for (const [key, each] of Object.entries(value)) {
      if (issues.length >= mostIssues) return
      way.push(key)
      visit(each, length + 1 + key.length)
      way.pop()
    }
  }
  for (const [place, values] of [
    ['steps', steps],
    ['result', result ?? {}],
  ] as const)
    for (const [key, value] of Object.entries(values)) {
      way.splice(0, way.length, place, key)
      if (issues.length < mostIssues) visit(value, 0)
    }
  return issues
}
