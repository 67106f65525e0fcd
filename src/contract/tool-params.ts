import type { z } from 'zod'
import type { ToolDeclaration } from '../tools/kit/tool.ts'
import type { JsonObject, Json } from '../policy/types.ts'
import { readAs } from '../policy/issues.ts'
import { type Issue, joinPath, jsonIssues } from './json.ts'
import { filesInput } from '../policy/templates.ts'
import { wholeTemplate } from './forms.ts'

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

/**
 * If a parameter takes text and no list, such as a prompt, exactly `{{input.uploaded_files}}` becomes the
 * text of the files. In other parameters it stays the list.
 */
export function withFilesAsText(tool: ToolDeclaration, params: JsonObject): JsonObject {
  if (!Object.values(params).some(isAllFiles)) return params
  const fields = fieldsOf(tool)
  return Object.fromEntries(
    Object.entries(params).map(([name, value]) => {
      const field = Object.hasOwn(fields, name) ? fields[name] : undefined
      const isText = field !== undefined && accepts(field, 'text') && !accepts(field, [{}])
      // A template with two parts always resolves to text, so an empty part comes first.
      return [name, isAllFiles(value) && isText ? `{{''}}${value}` : value]
    }),
  )
}

function isAllFiles(value: Json): value is string {
  if (typeof value !== 'string' || !value.includes(filesInput)) return false
  const reference = wholeTemplate(value)
  return reference?.kind === 'input' && reference.name === filesInput && reference.path.length === 0
}

/** Why this is no output of the tool; null is one that nobody knows. `path` names it in the request. */
export function outputIssues(tool: ToolDeclaration, output: Json, path: string): Issue[] {
  if (output === null) return []
  const read = readAs<unknown>(tool.output, output)
  if (read.ok) return []
  return read.issues.map((issue) => ({ path: joinPath(path, issue.path), message: issue.message }))
}
