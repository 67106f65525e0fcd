import { z } from 'zod'
import { headlineWithField, readAs } from '../../policy/issues.ts'
import type { Json, JsonObject } from '../../policy/types.ts'

/*
 * The fields of a model's answer, as the part of JSON Schema that all providers take: objects, lists, texts, numbers,
 * whole numbers, true or false, null beside one of these, and lists of allowed texts. No patterns, so no expression of
 * an author is ever run.
 */

const [mostFields, mostLevels, mostOptions] = [200, 6, 200]
const types = ['object', 'array', 'string', 'number', 'integer', 'boolean'] as const

interface Schema extends JsonObject {
  readonly properties?: { readonly [name: string]: Schema }
  readonly items?: Schema
  readonly required?: readonly string[]
}

interface Problem {
  readonly path: readonly string[]
  readonly message: string
}

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const keysOf: Readonly<Record<string, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties'],
  array: ['items'],
  string: ['enum'],
}

/** The type of the schema, beside null. */
function typeOf({ type }: JsonObject): string | null {
  const all = Array.isArray(type) ? type.filter((each) => each !== 'null') : [type]
  const [only] = all
  return all.length === 1 && types.some((each) => each === only) ? (only as string) : null
}

/** What is wrong with the schema. Null: nothing. */
function problemOf(schema: unknown): Problem | null {
  let fields = 0
  const visit = (at: unknown, path: readonly string[]): Problem | null => {
    const wrong = (message: string, ...more: string[]): Problem => ({ path: [...path, ...more], message })
    if (!isObject(at)) return wrong('must be an object with a `type`')
    const type = typeOf(at)
    if (type === null)
      return wrong(`must be one of ${types.join(', ')}, or a list of one of them and null`, 'type')
    if (path.length > 2 * mostLevels) return wrong(`is nested deeper than ${mostLevels} levels`)
    const known = ['type', 'description', ...(keysOf[type] ?? [])]
    const other = Object.keys(at).find((key) => !known.includes(key))
    if (other !== undefined) return wrong(`is not taken here: a ${type} has ${known.join(', ')}`, other)
    if (at['description'] !== undefined && typeof at['description'] !== 'string')
      return wrong('must be text', 'description')
    if (at['additionalProperties'] !== undefined && at['additionalProperties'] !== false)
      return wrong('must be false, or is left out', 'additionalProperties')
    if (type === 'array') return visit(at['items'], [...path, 'items'])
    if (type === 'string')
      return isEnum(at['enum']) ? null : wrong(`must be a list of 1 to ${mostOptions} texts`, 'enum')
    if (type !== 'object') return null
    const { properties, required = [] } = at
    if (!isObject(properties) || Object.keys(properties).length === 0)
      return wrong('must name at least one field', 'properties')
    fields += Object.keys(properties).length
    if (fields > mostFields) return wrong(`are more than ${mostFields} together`, 'properties')
    const isNamed = (name: Json): boolean => typeof name === 'string' && Object.hasOwn(properties, name)
    if (!Array.isArray(required) || !required.every(isNamed))
      return wrong('must be a list of names of `properties`', 'required')
    for (const [name, each] of Object.entries(properties)) {
      const found = visit(each, [...path, 'properties', name])
      if (found !== null) return found
    }
    return null
  }
  const found = visit(schema, [])
  return (
    found ??
    (isObject(schema) && schema['type'] === 'object' ? null : { path: ['type'], message: 'must be object' })
  )
}

const isEnum = (options: unknown): boolean =>
  options === undefined ||
  (Array.isArray(options) &&
    options.length >= 1 &&
    options.length <= mostOptions &&
    options.every((each) => typeof each === 'string'))

/** The parameter `output`. */
export const outputSchema = z
  .record(z.string().max(200), z.json())
  .superRefine((schema, context) => {
    const problem = problemOf(schema)
    if (problem !== null)
      context.addIssue({ code: 'custom', path: [...problem.path], message: problem.message })
  })
  .describe('The fields of the answer, as JSON Schema. The answer is then in `data`.')

/** As the providers want it: every field is there, and one that is not `required` may be null. */
export function strictSchema(schema: JsonObject): JsonObject {
  const { properties, items, required = [], ...own } = schema as Schema
  if (properties !== undefined) {
    const fields = Object.entries(properties).map(([name, each]) => {
      const field = strictSchema(each)
      return [name, required.includes(name) ? field : orNull(field)] as const
    })
    return {
      ...own,
      properties: Object.fromEntries(fields),
      required: Object.keys(properties),
      additionalProperties: false,
    }
  }
  return items === undefined ? own : { ...own, items: strictSchema(items) }
}

const orNull = (schema: JsonObject): JsonObject => {
  const { type, enum: options } = schema
  return {
    ...schema,
    type: [type ?? [], 'null'].flat() as Json,
    ...(Array.isArray(options) ? { enum: [...options, null] } : {}),
  }
}

/** With null for each field that is not required and not there. */
function withNulls({ properties, items, required = [] }: Schema, value: unknown): unknown {
  if (properties !== undefined && isObject(value)) {
    const missing = Object.keys(properties).filter(
      (name) => !required.includes(name) && !Object.hasOwn(value, name),
    )
    const given = Object.entries(value).map(([name, each]) => {
      const schema = Object.hasOwn(properties, name) ? properties[name] : undefined
      return [name, schema === undefined ? each : withNulls(schema, each)] as const
    })
    return Object.fromEntries([...given, ...missing.map((name) => [name, null] as const)])
  }
  return items !== undefined && Array.isArray(value) ? value.map((each) => withNulls(items, each)) : value
}

export type Read = { readonly data: JsonObject } | { readonly misfit: string }

/** `text` is the answer. Some models write words or a fence around the object. `misfit` says what to change. */
export function readFields(schema: JsonObject, text: string): Read {
  const [from, to] = [text.indexOf('{'), text.lastIndexOf('}')]
  let value: unknown
  try {
    value = JSON.parse(text.slice(from, to + 1))
  } catch {
    return { misfit: 'it is not one JSON object' }
  }
  const whole = withNulls(schema, value)
  const read = readAs(z.fromJSONSchema(strictSchema(schema)), whole, { quotes: false })
  return read.ok
    ? { data: read.value as JsonObject }
    : { misfit: headlineWithField('it does not fit the schema', read.issues, 5) }
}
