import type { z } from 'zod'

interface Def {
  readonly type: string
  readonly shape?: Record<string, z.ZodType>
  readonly innerType?: z.ZodType
  readonly in?: z.ZodType
  readonly out?: z.ZodType
  readonly element?: z.ZodType
  readonly valueType?: z.ZodType
  readonly options?: z.ZodType[]
  readonly values?: unknown[]
  readonly entries?: Record<string, unknown>
}

/** Every field of a schema by its dotted path. `[]` means an element of a list, `.*` any name, and `=` an operator. */
export function fieldsOf(schema: z.ZodType): string[] {
  return [...new Set(walk(schema, ''))]
}

function walk(schema: z.ZodType, path: string): string[] {
  const def = (schema as unknown as { def: Def }).def
  const into = (next: z.ZodType | undefined, at: string): string[] =>
    next === undefined ? [] : walk(next, at)
  switch (def.type) {
    case 'object':
      return Object.entries(def.shape ?? {}).flatMap(([name, each]) =>
        walk(each, path === '' ? name : `${path}.${name}`),
      )
    case 'optional':
    case 'nullable':
    case 'default':
      return into(def.innerType, path)
    case 'pipe':
      return into(def.in, path)
    case 'array':
      return into(def.element, `${path}[]`)
    case 'record':
      return into(def.valueType, `${path}.*`)
    case 'union':
      return (def.options ?? []).flatMap((each) => walk(each, path))
    case 'literal':
    case 'enum':
      if (!path.endsWith('.operator')) return [path]
      return (def.values ?? Object.keys(def.entries ?? {})).map((operator) => `${path}=${String(operator)}`)
    default:
      return [path]
  }
}
