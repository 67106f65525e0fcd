import type { z } from 'zod'
import type { ToolDeclaration } from '../tools/kit/tool.ts'
import { readAs } from '../policy/issues.ts'
import { isTemplate, parseText, type Template } from '../policy/template-syntax.ts'
import type { Json, JsonObject } from '../policy/types.ts'
import { type Form, type JsonType, typeOf, words } from './forms.ts'
import { type Issue, joinPath } from './json.ts'
import { aboutParam, accepts, fieldsOf } from './tool-params.ts'

/**
 * Finds the errors in a step's parameters that are certain before any run: unknown and missing parameters,
 * values that the tool refuses, and references to a value whose type the parameter does not take.
 */
export function checkParams(
  tool: ToolDeclaration,
  params: JsonObject,
  formOf: (template: Template) => Form,
): Issue[] {
  const fields = fieldsOf(tool)
  const names = Object.keys(fields)
  const issues: Issue[] = []
  for (const [name, value] of Object.entries(params)) {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined
    if (field === undefined) {
      const has = names.length === 0 ? 'none' : names.map((each) => `\`${each}\``).join(', ')
      issues.push({ path: name, message: `\`${tool.name}\` has no parameter \`${name}\` (it has ${has})` })
    } else issues.push(...checkParam(field, name, value, formOf))
  }
  for (const [name, field] of Object.entries(fields)) {
    if (!Object.hasOwn(params, name) && !accepts(field, undefined)) {
      issues.push({ path: name, message: `\`${tool.name}\` needs the parameter \`${name}\`` })
    }
  }
  return issues
}

function checkParam(
  field: z.ZodType,
  name: string,
  value: Json,
  formOf: (template: Template) => Form,
): Issue[] {
  if (value === null && accepts(field, undefined)) return []
  const gaps: Gaps = new Map()
  const sample = sampleOf(value, [], gaps, formOf)
  const read = readAs(field, sample, { quotes: gaps.size === 0, counts: (issue) => isSure(issue, [], gaps) })
  if (read.ok) return []
  return read.issues.map(({ path, message }) => {
    const gap = gaps.get(path)
    return aboutParam(joinPath(name, path), gap === undefined ? message : aboutGap(message, gap))
  })
}

/** A position that a template fills in. */
interface Gap {
  /** Null if the value can have several types. */
  readonly type: JsonType | null
  /** Null if the text is not exactly one reference. `sampleOf` then returns the text without them. */
  readonly reference: string | null
}
/** Each key is a dotted path. */
type Gaps = Map<string, Gap>

const samples: Readonly<Record<JsonType, unknown>> = {
  string: 'text',
  number: 1,
  boolean: true,
  array: [],
  object: {},
}

/** A sample has the type of its gap, or is undefined if the gap can have several types. */
function sampleOf(
  value: Json,
  way: readonly string[],
  gaps: Gaps,
  formOf: (template: Template) => Form,
): unknown {
  if (typeof value === 'string') {
    if (!isTemplate(value)) return value
    const parts = parseText(value)
    const written = parts.filter((part) => typeof part === 'string')
    if (written.length === parts.length) return written.join('')
    const [only] = parts
    if (parts.length > 1 || typeof only !== 'object') {
      gaps.set(way.join('.'), { type: 'string', reference: null })
      return written.join('')
    }
    const type = typeOf(formOf(only))
    gaps.set(way.join('.'), { type, reference: only.text })
    return type === null ? undefined : samples[type]
  }
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value))
    return (value as readonly Json[]).map((each, at) => sampleOf(each, [...way, String(at)], gaps, formOf))
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [key, sampleOf(each, [...way, key], gaps, formOf)]),
  )
}

/** The issue exists for all values of the gaps. A union is wrong if all of its branches are wrong. */
function isSure(issue: z.core.$ZodIssue, at: readonly PropertyKey[], gaps: Gaps): boolean {
  const way = [...at, ...issue.path]
  const gap = gaps.get(way.join('.'))
  if (gap === undefined && isBelowGap(way, gaps)) return false
  if (issue.code === 'invalid_union' && issue.errors.length > 0)
    return issue.errors.every((branch) => branch.some((each) => isSure(each, way, gaps)))
  if (gap === undefined) return true
  if (gap.type === null) return false
  if (issue.code === 'invalid_type') return true
  if (issue.code === 'invalid_value') return issue.values.every((each) => typeof each !== gap.type)
  // The value of a template can only make a text longer.
  return issue.code === 'too_big' && gap.reference === null
}

const isBelowGap = (way: readonly PropertyKey[], gaps: Gaps): boolean =>
  way.some((_, length) => gaps.has(way.slice(0, length).join('.')))

function aboutGap(message: string, { type, reference }: Gap): string {
  if (type === null || reference === null) return message
  const [wanted = ''] = message.split(', not ')
  const hint = wanted === 'must be text' ? `: write \`{{''}}${reference}\` to make it text` : ''
  return `${wanted}, and \`${reference}\` is ${words[type]}${hint}`
}
