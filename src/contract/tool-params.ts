import type { z } from 'zod'
import type { ToolDeclaration } from '../tools/kit/tool.ts'
import type { JsonObject } from '../policy/types.ts'
import { readAs } from '../policy/issues.ts'
import { type Issue, jsonIssues } from './json.ts'

export type ParsedParams =
  { readonly ok: true; readonly params: JsonObject } | { readonly ok: false; readonly issues: Issue[] }

type Fields = Readonly<Record<string, z.ZodType>>

export const fieldsOf = (tool: ToolDeclaration) => tool.params.shape as Fields

/**
 * Adds the defaults. No issue contains a value. An optional input that was not given resolves to null, so
 * null counts as absent for an optional parameter that does not accept null.
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

export function accepts(field: z.ZodType, value: unknown): boolean {
  return field.safeParse(value).success
}

export function aboutParam(path: string, message: string): Issue {
  return { path, message: `parameter \`${path}\` ${message}` }
}
