import type { StoredEntry } from './verify-entry.ts'

/*
 * The export of a chain has a line for each entry, and a last line with the checkpoint. `hash` is the first field of an
 * entry's line. The hash covers the line without `"hash":"…",`, which still begins with `{`. So a reader does not need
 * RFC 8785.
 */

const hashField = '{"hash":"'
const hashLength = 64
const afterHash = '",'

/** Returns the line of an entry, without a line break. */
export const lineOf = ({ canonical, hash }: StoredEntry): string =>
  `${hashField}${hash}${afterHash}${canonical.slice(1)}`

/** Reads a line that `lineOf` has made. Returns null if the line has another form. */
export function entryOf(line: string): StoredEntry | null {
  const end = hashField.length + hashLength
  const rest = end + afterHash.length
  if (!line.startsWith(hashField) || line.slice(end, rest) !== afterHash) return null
  return { canonical: `{${line.slice(rest)}`, hash: line.slice(hashField.length, end) }
}

/** The last line of an export. */
export interface LastLine {
  /** A signed note (checkpoint.ts). */
  readonly checkpoint: string
  readonly verifier_key: string
}
