import type { z } from 'zod'
import type { ToolDeclaration } from '../catalog/tool.ts'
import { references } from '../policy/template-syntax.ts'
import type { Json, JsonObject } from '../policy/types.ts'
import { type Issue, joinPath, jsonIssues } from './json.ts'

export type ParsedParams =
  { readonly ok: true; readonly params: JsonObject } | { readonly ok: false; readonly issues: Issue[] }

type Fields = Readonly<Record<string, z.ZodType>>

const fieldsOf = (tool: ToolDeclaration) => tool.params.shape as Fields

/**
 * Resolved parameters as the tool's body takes them: validated, defaults filled in. null for a parameter that can be
 * left out but cannot be null counts as left out, since an optional input that was not given resolves to null.
 */
export function parseParams(tool: ToolDeclaration, params: JsonObject): ParsedParams {
  const issues = jsonIssues(params)
  if (issues.length > 0) return { ok: false, issues }
  const fields = fieldsOf(tool)
  const given = Object.entries(params).filter(([name, value]) => {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined
    return value !== null || field === undefined || accepts(field, null) || !accepts(field, undefined)
  })
  const parsed = tool.params.safeParse(Object.fromEntries(given))
  if (parsed.success) return { ok: true, params: parsed.data as JsonObject }
  return { ok: false, issues: parsed.error.issues.flatMap((issue) => toIssues(issue, '')) }
}

/**
 * What can be said about a step's parameters before any run: unknown ones, missing required ones, and constants of the
 * wrong type. A value with a template in it is only checked at run time.
 */
export function checkConstantParams(tool: ToolDeclaration, params: JsonObject): Issue[] {
  const fields = fieldsOf(tool)
  const names = Object.keys(fields)
  const issues: Issue[] = []
  for (const [name, value] of Object.entries(params)) {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined
    if (field === undefined) {
      const has = names.length === 0 ? 'none' : names.map((each) => `\`${each}\``).join(', ')
      issues.push({ path: name, message: `\`${tool.name}\` has no parameter \`${name}\` (it has ${has})` })
    } else if (references(value).length === 0) issues.push(...checkConstant(field, name, value))
  }
  for (const [name, field] of Object.entries(fields)) {
    if (!Object.hasOwn(params, name) && !accepts(field, undefined)) {
      issues.push({ path: name, message: `\`${tool.name}\` needs the parameter \`${name}\`` })
    }
  }
  return issues
}

function checkConstant(field: z.ZodType, name: string, value: Json): Issue[] {
  if (value === null && accepts(field, undefined)) return []
  const parsed = field.safeParse(value)
  if (parsed.success) return []
  return parsed.error.issues.flatMap((issue) => toIssues(issue, name))
}

function accepts(field: z.ZodType, value: unknown): boolean {
  return field.safeParse(value).success
}

function toIssues(issue: z.core.$ZodIssue, name: string): Issue[] {
  const path = joinPath(name, ...issue.path.map(String))
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({
      path: joinPath(path, key),
      message: `there is no parameter \`${key}\``,
    }))
  }
  const text = issue.message.replace(/^Invalid input: /, '')
  return [{ path, message: `parameter \`${path}\`: ${text.charAt(0).toLowerCase()}${text.slice(1)}` }]
}
