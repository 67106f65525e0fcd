import type { Word } from 'unbash'

/*
 * Where bash runs `$(...)` although quotes stand around it, or reads a text again as an expression. No parser shows
 * these as commands, so a text that could be one counts as a script.
 */

/** In arithmetic, subscripts and slices single quotes protect nothing. */
export const runsBetweenQuotes = (raw: string): boolean => raw.includes("'") && /\$\(|`/.test(raw)

/** A subscript with a substitution in it, which `declare -i`, `test -v`, `[[ -eq ]]`, `$(( x ))` ... would run. */
export const runsWhenEvaluated = (text: string): boolean => /\[[^\]]*(?:\$\(|`)/.test(text)

/** The quoted parts of a word alone: what is not quoted has been read already. */
export function literalOf(word: Word): string {
  if (word.parts === undefined) return word.value
  return word.parts
    .map((part) => {
      if (part.type === 'DoubleQuoted' || part.type === 'LocaleString')
        return part.parts.map((child) => (child.type === 'Literal' ? child.value : ' ')).join('')
      const quoted = part.type === 'Literal' || part.type === 'SingleQuoted' || part.type === 'AnsiCQuoted'
      return quoted ? part.value : ' '
    })
    .join('')
}
