import { z } from 'zod'
import { shownPath, type FieldIssue } from '../policy/issues.ts'
import type { Json, JsonObject } from '../policy/types.ts'

export type Issue = FieldIssue

/** This limit of nested levels is for the whole service. It protects recursive functions. */
export const deepestJson = 64

/** These are special in JavaScript objects, so they are never accepted as keys or ids. */
const forbiddenNames: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype'])

export function isForbiddenName(name: string): boolean {
  return forbiddenNames.has(name)
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Characters of a field's name. */
export const longestKey = 1_000

/**
 * Returns at most ten issues: too many levels, NUL characters, broken surrogate pairs, values that JSON
 * cannot express, and names that are forbidden or too long.
 */
export function jsonIssues(value: unknown, path = ''): Issue[] {
  return inspectJson(value, { path }).issues
}

/**
 * Also counts the fields of all objects. Stops after `most` issues. The time is proportional to the size, and
 * the depth is limited. The walk shares one path, which becomes text only for an issue.
 */
export function inspectJson(
  value: unknown,
  { path = '', most = 10 }: { path?: string; most?: number } = {},
): { issues: Issue[]; fields: number } {
  const walk: Walk = {
    way: path === '' ? [] : [path],
    start: path === '' ? 0 : 1,
    most,
    issues: [],
    fields: 0,
  }
  visit(value, walk)
  return { issues: walk.issues, fields: walk.fields }
}

export function joinPath(...parts: readonly (string | number)[]): string {
  return parts.filter((part) => part !== '').join('.')
}

interface Walk {
  readonly way: (string | number)[]
  readonly start: number
  readonly most: number
  readonly issues: Issue[]
  fields: number
}

function report({ way, issues }: Walk, message: string): void {
  issues.push({ path: shownPath(way), message })
}

function visit(value: unknown, walk: Walk): void {
  if (walk.issues.length >= walk.most) return
  if (typeof value === 'string') {
    const problem = textProblem(value)
    if (problem !== null) report(walk, problem)
  } else if (typeof value === 'number') {
    if (!Number.isFinite(value)) report(walk, 'must be a finite number')
  } else if (typeof value === 'object' && value !== null) {
    visitAll(value, walk)
  } else if (value !== null && typeof value !== 'boolean') report(walk, `must be JSON, not ${typeof value}`)
}

function visitAll(value: object, walk: Walk): void {
  const { way, start, issues, most } = walk
  const depth = way.length - start
  if (depth >= deepestJson) return report(walk, `is nested more than ${deepestJson} levels deep`)
  const at = way.length
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length && issues.length < most; index += 1) {
      way[at] = index
      visit(value[index], walk)
    }
  } else {
    for (const [key, each] of Object.entries(value)) {
      if (issues.length >= most) break
      walk.fields += 1
      // PostgreSQL cannot store such a name, so the message does not show it.
      const bad = textProblem(key)
      if (bad !== null) {
        way.length = at
        report(walk, `a field’s name ${bad}`)
      }
      way[at] = key
      const problem = nameProblem(key)
      if (problem !== null) report(walk, problem)
      visit(each, walk)
    }
  }
  way.length = at
}

function nameProblem(key: string): string | null {
  if (isForbiddenName(key)) return `\`${key}\` cannot be used as a name`
  if (key.length > longestKey)
    return `has a name of more than ${longestKey.toLocaleString('en-US')} characters: shorten it`
  return null
}

function textProblem(text: string): string | null {
  if (text.includes('\u0000')) return 'must not contain NUL characters'
  return text.isWellFormed() ? null : 'must not contain broken surrogate pairs'
}

/** The result is a word of `InputType`, or the text `null`. */
export function typeOfJson(value: Json): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

/** zod's own object schemas would silently drop a `__proto__` key instead of refusing it. */
const json = z.unknown().superRefine((value, context) => {
  if (value === undefined) context.addIssue({ code: 'custom', message: 'is missing' })
  else
    for (const { message, path } of jsonIssues(value))
      context.addIssue({ code: 'custom', message, path: path === '' ? [] : [path] })
})

export const jsonObject = json
  .superRefine((value, context) => {
    if (!isObject(value)) context.addIssue({ code: 'custom', message: 'must be an object' })
  })
  .transform((value) => value as JsonObject)
  .meta({ type: 'object', additionalProperties: {} })

export const jsonValue = json.transform((value) => value as Json)
