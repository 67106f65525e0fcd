/** As much of JSON Schema as `openapi.json` uses. */
export interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly format?: string
  readonly default?: unknown
}

interface FieldText {
  readonly name: string
  readonly required: boolean
  readonly type: string
}

/** The fields of an object's schema, each with its type in a word or two. */
export function fieldsOf(schema: Schema, named: Readonly<Record<string, Schema>>): FieldText[] {
  const known = schema.$ref === undefined ? schema : (named[nameOf(schema.$ref)] ?? {})
  return Object.entries(known.properties ?? {}).map(([name, field]) => ({
    name,
    required: known.required?.includes(name) === true,
    type: typeText(field),
  }))
}

/** A schema as a reader takes it in: `text`, `list of Rule`, `"allow" | "deny"`, `{name, status}`. */
export function typeText(schema: Schema): string {
  const base = baseText(schema)
  return schema.default === undefined ? base : `${base} (default ${JSON.stringify(schema.default)})`
}

function baseText(schema: Schema): string {
  if (schema.$ref !== undefined) return nameOf(schema.$ref)
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(' | ')
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  const branches = schema.anyOf ?? schema.oneOf
  if (branches !== undefined) return [...new Set(branches.map(baseText))].join(' | ')
  if (schema.items !== undefined) return `list of ${baseText(schema.items)}`
  if (schema.properties !== undefined) return `{${Object.keys(schema.properties).join(', ')}}`
  const types = [schema.type ?? 'any'].flat()
  return types.map((type) => (type === 'string' ? (schema.format ?? 'text') : type)).join(' | ')
}

const nameOf = (reference: string): string => reference.split('/').at(-1) ?? reference
