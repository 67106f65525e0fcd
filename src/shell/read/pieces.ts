import { mostAlternatives } from '../limits.ts'
import { unknown, withoutUnknowns } from '../marks.ts'

/* The pieces of expanded words (words.ts). Texts, fields and combinations are made of these pieces. */

/**
 * A piece of a word. If `split` is true, the piece is an unquoted value, and separators split it into fields. If `cut`
 * is true, a new field begins before the piece.
 */
export interface Piece {
  readonly text: string
  readonly quoted: boolean
  readonly split: boolean
  readonly cut: boolean
}
export type Pieces = readonly Piece[]

export const stretch = (text: string, quoted: boolean, split = false, cut = false): Piece => ({
  text,
  quoted,
  split,
  cut,
})

export const withoutWhatIsUnknown = (part: Piece): Piece => ({ ...part, text: withoutUnknowns(part.text) })

/** Returns each reading as one text. */
export const joined = (readings: readonly Pieces[]): string[] =>
  readings.map((pieces) => pieces.map(({ text, cut }, at) => (cut && at > 0 ? ` ${text}` : text)).join(''))

/**
 * Returns every combination of one alternative for each column. A column contains the alternatives of one word. If a
 * column makes too many combinations, `instead` replaces the alternatives of this column.
 */
export function product<T>(columns: readonly (readonly (readonly T[])[])[], instead: readonly T[]): T[][] {
  let all: T[][] = [[]]
  for (const readings of columns) all = extended(all, readings, instead)
  return all
}

/** Appends each alternative to each combination. A single alternative needs no copies, which is faster. */
export function extended<T>(all: T[][], readings: readonly (readonly T[])[], instead: readonly T[]): T[][] {
  const kept = readings.length * all.length > mostAlternatives ? [instead] : readings
  const [only] = kept
  if (kept.length !== 1 || only === undefined)
    return all.flatMap((before) => kept.map((next) => [...before, ...next]))
  for (const each of all) for (const next of only) each.push(next)
  return all
}

/** Splits the pieces of a word into fields. `ifs` matches the separators, and is undefined if they are unknown. */
export function fieldsOf(pieces: Pieces, ifs: RegExp | undefined): string[] {
  const fields: string[] = []
  let field: string | undefined
  const end = (): void => {
    if (field !== undefined) fields.push(field)
    field = undefined
  }
  for (const { text, quoted, split, cut } of pieces) {
    if (cut) end()
    if (!split) {
      if (quoted || text !== '') field = (field ?? '') + text
      continue
    }
    // If the separators are unknown, the fields are unknown too.
    for (const [at, bit] of (ifs === undefined ? [text && unknown] : text.split(ifs)).entries()) {
      if (at > 0) end()
      if (bit !== '') field = (field ?? '') + bit
    }
  }
  end()
  return fields
}
