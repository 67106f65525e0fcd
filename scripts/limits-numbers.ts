import { z } from 'zod'
import { rateLimits } from '../src/api/auth-options.ts'
import { openApiDocument } from '../src/api/openapi.ts'
import { routes } from '../src/api/routes/index.ts'
import { getTool } from '../src/tools/index.ts'

/* Reads the limits that openapi.json publishes, and formats numbers, sizes and times for the page on limits. */

/** The rows of one table of the page. */
export type Rows = readonly (readonly [what: string, limit: string])[]

type Schema = Readonly<Record<string, unknown>>
const document = openApiDocument(routes) as {
  readonly components: { readonly schemas: Schema }
  readonly paths: Readonly<Record<string, Readonly<Record<string, { parameters: readonly Parameter[] }>>>>
}
interface Parameter {
  readonly name: string
  readonly schema: { readonly maximum?: number; readonly maxLength?: number; readonly default?: number }
}

/**
 * The limits of schemas that the page has already named. Each text has the field, the keyword and the number. Example:
 * `tools.maxItems=100`.
 */
export const namedLimits = new Set<string>()

/**
 * Returns a limit in the form that `namedLimits` has. `path` begins with a schema or tool, and ends with the keyword.
 * Example: the path `RuleRequest.tools.maxItems` with 100 becomes `tools.maxItems=100`.
 */
export function limitOf(path: readonly string[], number: number): string {
  const isField = (step: string): boolean => step !== 'items' && step !== 'additionalProperties'
  const last = path.slice(1, -1).findLastIndex(isField) + 1
  return `${path.slice(last).join('.')}=${number}`
}

/**
 * Returns a number from a schema of openapi.json, and adds the limit to `namedLimits`. An example of `path` is
 * `RuleRequest.tools.maxItems`. The path may leave out `properties`, `items` and `anyOf`.
 */
export function numberAt(path: string): string {
  const [name = '', ...steps] = path.split('.')
  const number = numberIn(document.components.schemas[name], steps, path)
  namedLimits.add(limitOf(path.split('.'), number))
  return count(number)
}

/** Returns the number that is the same at all these paths. Throws if the numbers differ. */
export function sameAt(...paths: readonly string[]): string {
  const numbers = new Set(paths.map(numberAt))
  if (numbers.size !== 1)
    throw new Error(`these limits differ, so they need a line each: ${paths.join(', ')}`)
  return [...numbers].join('')
}

/**
 * Returns one limit from the schema of a tool's parameters. `path` is, for example,
 * `calendar_create_event.attendees.maxItems`.
 */
export function toolNumberAt(path: string): string {
  const [name = '', ...steps] = path.split('.')
  const tool = getTool(name)
  return count(numberIn(tool && z.toJSONSchema(tool.params, { io: 'input' }), steps, path))
}

function numberIn(schema: unknown, steps: readonly string[], path: string): number {
  let at = schema
  for (const step of steps) {
    const { properties, items, anyOf } = at as {
      properties?: Schema
      items?: Schema
      anyOf?: readonly Schema[]
    }
    const places = [properties, at as Schema, items, ...(anyOf ?? [])]
    at = places.find((place) => place?.[step] !== undefined)?.[step]
  }
  if (typeof at !== 'number') throw new Error(`no schema has a number at \`${path}\``)
  return at
}

export const count = (number: number): string => number.toLocaleString('en-US')

export function bytes(number: number): string {
  const [unit, size] =
    number >= 1024 ** 3 ? ['GiB', 1024 ** 3] : number >= 1024 ** 2 ? ['MiB', 1024 ** 2] : ['KiB', 1024]
  return `${count(number / size)} ${unit}`
}

export function seconds(number: number): string {
  const [unit, size] = [['day', 86_400] as const, ['hour', 3_600] as const, ['minute', 60] as const].find(
    ([, each]) => number >= each && number % each === 0,
  ) ?? ['second', 1]
  return `${count(number / size)} ${unit}${number === size ? '' : 's'}`
}

export function parameter(
  method: string,
  path: string,
  wanted: string,
): Record<'maximum' | 'maxLength' | 'default', number> {
  const found = document.paths[path]?.[method]?.parameters.find(({ name }) => name === wanted)
  const { maximum = Number.NaN, maxLength = Number.NaN, default: value = Number.NaN } = found?.schema ?? {}
  for (const [keyword, number] of Object.entries({ maximum, maxLength }))
    if (!Number.isNaN(number)) namedLimits.add(limitOf([path, wanted, keyword], number))
  return { maximum, maxLength, default: value }
}
export const wait = (method: string, path: string): string => {
  const { maximum, default: value } = parameter(method, path, 'wait')
  return `${seconds(maximum)}; default ${seconds(value)}`
}
export const characters = (path: string): string => `${numberAt(`${path}.maxLength`)} characters`
export const perMinute = (path: keyof typeof rateLimits): string =>
  `${rateLimits[path].max} per ${seconds(rateLimits[path].window).replace('1 ', '')} and address`
