import { readFileSync } from 'node:fs'

/*
 * Checks requests and answers against Google's published descriptions of its APIs. A query parameter, field or value
 * that is missing in the descriptions is an issue. A required parameter that a request lacks is an issue too. So
 * neither our calls nor the stand-in can use a part that Google does not offer. Rules that the descriptions state only
 * in prose, such as limits, rights and combinations of fields, are not checked.
 */

interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly enum?: readonly string[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: Schema
}

export interface Method {
  readonly id: string
  readonly httpMethod: string
  /** The path, with `{name}` for path parameters. */
  readonly path: string
  readonly uploadPath?: string
  readonly parameters: Readonly<Record<string, Schema & { location: string; required?: boolean }>>
  readonly request?: string
  readonly response?: string
}

export interface Described {
  readonly methods: readonly Method[]
  readonly schemas: Readonly<Record<string, Schema>>
}

export const described = (name: 'calendar.v3' | 'docs.v1' | 'drive.v3' | 'sheets.v4'): Described =>
  JSON.parse(readFileSync(new URL(`descriptions/${name}.json`, import.meta.url), 'utf8')) as Described

interface Request {
  readonly path: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly body: unknown
}

/** Returns the parts of a request that the method does not describe, and the required parameters that are missing. */
export function issuesOfRequest(
  { schemas }: Described,
  { parameters, request, response }: Method,
  { path, query, body }: Request,
): string[] {
  const missing = Object.entries(parameters)
    .filter(([name, { location, required }]) => {
      const text = location === 'path' ? path[name] : query.get(name)
      return required === true && (text ?? '') === ''
    })
    .map(([name]) => `${name} is required`)
  const ofQuery = [...query].flatMap(([name, text]) => {
    const parameter = parameters[name]
    if (parameter?.location !== 'query' && name !== 'uploadType') return [`no query parameter ${name}`]
    return parameter === undefined ? [] : issuesOf(schemas, parameter, fromQuery(parameter, text), name)
  })
  const fields = query.get('fields')
  const ofMask =
    fields === null || fields === '*' || response === undefined
      ? []
      : issuesOfMask(schemas, { $ref: response }, maskOf(fields), 'fields')
  const issues = [...missing, ...ofQuery, ...ofMask]
  if (request === undefined) return body === undefined ? issues : [...issues, 'no body']
  return [...issues, ...issuesOf(schemas, { $ref: request }, body, 'body')]
}

export const issuesOfAnswer = ({ schemas }: Described, { response }: Method, answer: unknown): string[] =>
  response === undefined ? [] : issuesOf(schemas, { $ref: response }, answer, 'answer')

function fromQuery({ type }: Schema, text: string): unknown {
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text
  return type === 'integer' && /^-?\d+$/.test(text) ? Number(text) : text
}

function issuesOf(
  schemas: Described['schemas'],
  { $ref, type, items, properties, additionalProperties, enum: values }: Schema,
  value: unknown,
  at: string,
): string[] {
  if ($ref !== undefined) return issuesOf(schemas, schemas[$ref] ?? {}, value, at)
  if (type === 'any') return []
  if (type === 'array')
    return Array.isArray(value)
      ? value.flatMap((each, index) => issuesOf(schemas, items ?? {}, each, `${at}[${index}]`))
      : [`${at} is no list`]
  if (type === 'object') {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return [`${at} is no object`]
    return Object.entries(value).flatMap(([name, each]) => {
      const schema = properties?.[name] ?? additionalProperties
      return schema === undefined ? [`no ${at}.${name}`] : issuesOf(schemas, schema, each, `${at}.${name}`)
    })
  }
  if (type === 'integer') return Number.isInteger(value) ? [] : [`${at} is no integer`]
  if (typeof value !== type) return [`${at} is no ${type}`]
  return values === undefined || values.includes(value as string) ? [] : [`${at} is none of its values`]
}

type Mask = Map<string, Mask>

/** Returns an issue for each name in a mask of fields, if the answer cannot have a field of this name. */
function issuesOfMask(schemas: Described['schemas'], schema: Schema, mask: Mask, at: string): string[] {
  const { $ref, items, properties, additionalProperties } = schema
  const inner = $ref === undefined ? items : schemas[$ref]
  if (inner !== undefined) return issuesOfMask(schemas, inner, mask, at)
  return [...mask].flatMap(([name, below]) => {
    const each = properties?.[name] ?? additionalProperties
    return each === undefined ? [`no ${at}.${name}`] : issuesOfMask(schemas, each, below, `${at}.${name}`)
  })
}

/**
 * Returns the fields of a value that the mask `fields` selects. Example of a mask: `id,files(id,name),a/b,a.b`. If the
 * mask is null or `*`, returns the whole value.
 */
export function masked(value: unknown, fields: string | null): unknown {
  return fields === null || fields === '*' ? value : pick(value, maskOf(fields))
}

function maskOf(text: string): Mask {
  const mask: Mask = new Map()
  for (const part of partsOf(text)) {
    const [, path = '', inner] = /^([\w/.]+)(?:\((.*)\))?$/.exec(part) ?? []
    let at = mask
    for (const name of path.split(/[/.]/)) {
      const next: Mask = at.get(name) ?? new Map()
      at.set(name, next)
      at = next
    }
    if (inner !== undefined) for (const [name, each] of maskOf(inner)) at.set(name, each)
  }
  return mask
}

/** Splits at commas outside parentheses. Example: `a,b(c,d)` becomes `a` and `b(c,d)`. */
function partsOf(text: string): string[] {
  const parts = ['']
  let depth = 0
  for (const sign of text) {
    if (sign === '(') depth += 1
    if (sign === ')') depth -= 1
    if (sign === ',' && depth === 0) parts.push('')
    else parts[parts.length - 1] += sign
  }
  return parts
}

function pick(value: unknown, mask: Mask): unknown {
  if (mask.size === 0 || typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((each) => pick(each, mask))
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, each]) => {
      const inner = mask.get(name)
      return inner === undefined ? [] : [[name, pick(each, inner)]]
    }),
  )
}
