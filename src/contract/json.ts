import type { FieldIssue } from '../policy/issues.ts'
import type { Json, JsonObject } from '../policy/types.ts'

export type Issue = FieldIssue

/** Levels of nesting that JSON may have anywhere in the service; keeps every recursive reader safe. */
export const deepestJson = 64

/** Names that mean something to JavaScript objects: never accepted as keys or ids. */
const forbiddenNames: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype'])

export function isForbiddenName(name: string): boolean {
  return forbiddenNames.has(name)
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * What keeps a value from being plain JSON that can be stored: nesting over 64 levels, NUL characters, broken
 * surrogate pairs, numbers JSON does not have, forbidden keys. At most ten issues; never recurses past the bound.
 */
export function jsonIssues(value: unknown, path = ''): Issue[] {
  const issues: Issue[] = []
  visit(value, path, 0, issues)
  return issues
}

export function joinPath(...parts: readonly (string | number)[]): string {
  return parts.filter((part) => part !== '').join('.')
}

function visit(value: unknown, path: string, depth: number, issues: Issue[]): void {
  if (issues.length >= 10) return
  if (depth > deepestJson) {
    issues.push({ path, message: `is nested more than ${deepestJson} levels deep` })
  } else if (typeof value === 'string') {
    const problem = textProblem(value)
    if (problem !== null) issues.push({ path, message: problem })
  } else if (typeof value === 'number') {
    if (!Number.isFinite(value)) issues.push({ path, message: 'must be a finite number' })
  } else if (Array.isArray(value)) {
    value.forEach((each, index) => visit(each, joinPath(path, index), depth + 1, issues))
  } else if (isObject(value)) {
    for (const [key, each] of Object.entries(value)) {
      const problem = isForbiddenName(key) ? `\`${key}\` cannot be used as a name` : textProblem(key)
      if (problem !== null) issues.push({ path: joinPath(path, key), message: problem })
      visit(each, joinPath(path, key), depth + 1, issues)
    }
  } else if (value !== null && typeof value !== 'boolean') {
    issues.push({ path, message: `must be JSON, not ${typeof value}` })
  }
}

function textProblem(text: string): string | null {
  if (text.includes('\u0000')) return 'must not contain NUL characters'
  return text.isWellFormed() ? null : 'must not contain broken surrogate pairs'
}

/** A JSON value of bounded size in words, for messages: its type as the definition's input types name it. */
export function typeOfJson(value: Json): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}
