import type { z } from 'zod'

/** Then the remaining entries of a list are not checked. */
const mostIssues = 100

type Parse = z.core.$ZodTypeInternals['parse']

const prepared = new WeakSet<z.core.$ZodType>()

/**
 * Bounds the time in which a schema checks a value, by changing it and all its parts (docs/decisions/0066). The check
 * of a list stops at the hundredth issue: 100,000 issues took half a second, and a stack overflow made the answer a
 * 500. A text that is too long gets no other checks: similar tool names for a megabyte took half a second too.
 */
export function boundReading(schema: z.core.$ZodType): void {
  if (prepared.has(schema)) return
  prepared.add(schema)
  for (const part of partsOf(schema)) boundReading(part)
  const { _zod: internals } = schema
  const { checks = [] } = internals.def
  if (internals.def.type === 'string')
    for (const { _zod } of checks) if (isLongest(_zod.def)) Object.assign(_zod.def, { abort: true })
  if (internals.def.type !== 'array') return
  const { element } = internals.def as z.core.$ZodArrayDef
  const longest = Math.min(...checks.map(({ _zod }) => (isLongest(_zod.def) ? _zod.def.maximum : Infinity)))
  // zod replaces the parser after its first use. This wrapper stays in front of both.
  let { parse } = internals
  const ours = parseOf(element, (payload, context) => parse(payload, context), longest)
  const inFront = { get: () => ours, set: (other: Parse) => (parse = other), configurable: true }
  // Without checks, `run` is the parser itself.
  const runsParser = internals.run === parse
  Object.defineProperty(internals, 'parse', inFront)
  if (runsParser) Object.defineProperty(internals, 'run', inFront)
}

const isLongest = (def: z.core.$ZodCheckDef): def is z.core.$ZodCheckMaxLengthDef =>
  def.check === 'max_length'

function parseOf({ _zod: entry }: z.core.$ZodType, parse: Parse, longest: number): Parse {
  return (payload, context) => {
    const given: unknown = payload.value
    const isOneIssue = !Array.isArray(given) || given.length > longest
    if (isOneIssue || given.length <= mostIssues) return parse(payload, context)
    const read: unknown[] = []
    for (const [index, value] of given.entries()) {
      const result = entry.run({ value, issues: [] }, context)
      if (result instanceof Promise)
        throw new TypeError('schemas for outside values must not be asynchronous')
      read.push(result.value)
      for (const issue of result.issues)
        payload.issues.push({ ...issue, path: [index, ...(issue.path ?? [])] })
      if (payload.issues.length >= mostIssues) break
    }
    payload.value = read
    return payload
  }
}

function partsOf({ _zod }: z.core.$ZodType): z.core.$ZodType[] {
  const def = _zod.def as {
    readonly shape?: Readonly<Record<string, z.core.$ZodType>>
    readonly options?: readonly z.core.$ZodType[]
  } & Partial<
    Record<'innerType' | 'in' | 'out' | 'element' | 'keyType' | 'valueType' | 'catchall', z.core.$ZodType>
  >
  const { innerType, in: from, out, element, keyType, valueType, catchall } = def
  const parts = [innerType, from, out, element, keyType, valueType, catchall, ...(def.options ?? [])]
  return [...parts.filter((part) => part !== undefined), ...Object.values(def.shape ?? {})]
}
