import { heapBytes } from '../../shared/byte-cache.ts'

/** A saved rule. `text` is its body as JSON. */
export interface SavedRow {
  readonly id: string
  readonly text: string
}

/** A rule in compiled form. `text` is the saved body. `compiled` is null if the rule is not active. */
interface CompiledRow<Compiled> {
  readonly text: string
  readonly compiled: Compiled | null
  /** Estimated bytes in memory. */
  readonly bytes: number
}

/** Maps the id of each rule to its compiled rule. The order is the order of the saved rules. */
export type CompiledRows<Compiled> = ReadonlyMap<string, CompiledRow<Compiled>>

/** A saved rule and its compiled rule together take about this many times the memory of the saved rule. */
const compiledFactor = 3

/**
 * Compiles saved rules. A rule with the same id and text as in `former` is not compiled again. So a change of one rule
 * costs little, even if the other rules have many domains, which take long to compile.
 */
export function compileRows<Compiled>(
  rows: readonly SavedRow[],
  former: CompiledRows<Compiled> | undefined,
  compile: (id: string, body: object) => Compiled | null,
): CompiledRows<Compiled> {
  return new Map(
    rows.map(({ id, text }) => {
      const known = former?.get(id)
      if (known?.text === text) return [id, known]
      const body = JSON.parse(text) as object
      return [
        id,
        { text, compiled: compile(id, body), bytes: heapBytes(text) + compiledFactor * heapBytes(body) },
      ]
    }),
  )
}

export const activeOf = <Compiled>(rows: CompiledRows<Compiled>): Compiled[] =>
  [...rows.values()].flatMap(({ compiled }) => (compiled === null ? [] : [compiled]))

export const bytesOf = (rows: CompiledRows<unknown>): number =>
  [...rows.values()].reduce((sum, { bytes }) => sum + bytes, 0)
