import type { z } from 'zod'
import type { ToolDeclaration } from '../catalog/tool.ts'
import { references } from '../policy/template-syntax.ts'
import type { Json, JsonObject } from '../policy/types.ts'
import { readAs } from '../policy/issues.ts'
import { type Issue, joinPath, jsonIssues } from './json.ts'

export type ParsedParams =
  { readonly ok: true; readonly params: JsonObject } | { readonly ok: false; readonly issues: Issue[] }

type Fields = Readonly<Record<string, z.ZodType>>

const fieldsOf = (tool: ToolDeclaration) => tool.params.shape as Fields

/**
 * Resolved parameters as the tool's body takes them: validated, defaults filled in; no issue shows a value. null for a parameter that can be
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
  const read = readAs(tool.params, Object.fromEntries(given), { quotes: false })
  if (read.ok) return { ok: true, params: read.value as JsonObject }
  return { ok: false, issues: read.issues.map(({ path, message }) => aboutParam(path, message)) }
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
  const read = readAs(field, value)
  return read.ok ? [] : read.issues.map(({ path, message }) => aboutParam(joinPath(name, path), message))
}

function accepts(field: z.ZodType, value: unknown): boolean {
  return field.safeParse(value).success
}

function aboutParam(path: string, message: string): Issue {
  return { path, message: `parameter \`${path}\` ${message}` }
}
