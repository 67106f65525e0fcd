import type { z } from 'zod'

/** A place in a body: the path to it, and the schema there. */
export interface Spot {
  readonly path: readonly (string | number)[]
  readonly takes: 'text' | 'list' | 'object' | 'anything' | 'other'
}

interface Def {
  readonly type: string
  readonly innerType?: z.ZodType
  readonly in?: z.ZodType
  readonly element?: z.ZodType
  readonly valueType?: z.ZodType
  readonly options?: readonly z.ZodType[]
  readonly shape?: Readonly<Record<string, z.ZodType>>
}
const defOf = ({ _zod }: z.ZodType): Def => _zod.def

/** Every spot that the schema of a body knows. The body itself comes first. */
export function spotsOf(schema: z.ZodType, path: readonly (string | number)[] = []): Spot[] {
  const def = defOf(schema)
  const inner = def.innerType ?? def.in
  if (inner !== undefined) return spotsOf(inner, path)
  switch (def.type) {
    case 'object':
      return [
        { path, takes: 'object' },
        ...Object.entries(def.shape ?? {}).flatMap(([name, each]) => spotsOf(each, [...path, name])),
      ]
    case 'array':
      return [
        { path, takes: 'list' },
        ...(def.element === undefined ? [] : spotsOf(def.element, [...path, 0])),
      ]
    case 'record':
      return [
        { path, takes: 'object' },
        ...(def.valueType === undefined ? [] : spotsOf(def.valueType, [...path, 'a'])),
      ]
    case 'union':
      return uniqueSpots((def.options ?? []).flatMap((option) => spotsOf(option, path)))
    case 'string':
      return [{ path, takes: 'text' }]
    case 'unknown':
    case 'any':
      return [{ path, takes: 'anything' }]
    default:
      return [{ path, takes: 'other' }]
  }
}

function uniqueSpots(spots: readonly Spot[]): Spot[] {
  return [...new Map(spots.map((spot) => [JSON.stringify(spot), spot])).values()]
}

/** The JSON text of `body` with `text` at this spot. Missing objects and lists on the path are created. */
export function withAt(body: unknown, path: readonly (string | number)[], text: string): string {
  const [first, ...rest] = path
  if (first === undefined) return text
  if (typeof first === 'number')
    return `[${withAt(Array.isArray(body) ? body[first] : undefined, rest, text)}]`
  const fields = typeof body === 'object' && body !== null ? { ...(body as Record<string, unknown>) } : {}
  const below = withAt(fields[first], rest, text)
  delete fields[first]
  const others = JSON.stringify(fields).slice(1, -1)
  return `{${others}${others === '' ? '' : ','}${JSON.stringify(first)}:${below}}`
}
