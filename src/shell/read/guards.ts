import type { Word } from 'unbash'

/*
 * Where bash runs `$(...)` although quotes stand around it, or reads a text again as an expression. No parser shows
 * these as commands, so a text that could be one counts as a script.
 */

/** In arithmetic, subscripts and slices single quotes protect nothing. */
export const runsBetweenQuotes = (raw: string): boolean => raw.includes("'") && /\$\(|`/.test(raw)

/** A subscript with a substitution in it, which `declare -i`, `test -v`, `[[ -eq ]]`, `$(( x ))` ... would run. */
export const runsWhenEvaluated = (text: string): boolean => /\[[^\]]*(?:\$\(|`)/.test(text)

/** The variable whose value is all there is of a word, in quotes or not. */
export function onlyVariable(word: Word): string | undefined {
  const [part, more] = word.parts ?? []
  if (more !== undefined) return undefined
  const inner = part?.type === 'DoubleQuoted' && part.parts.length === 1 ? part.parts[0] : part
  if (inner?.type === 'SimpleExpansion') return inner.text.slice(1)
  return inner?.type === 'ParameterExpansion' ? inner.parameter : undefined
}

/** Whether all there is of a word is what `printf` or `echo` puts together there. */
export function onlyPrinted(word: Word): boolean {
  const [part, more] = word.parts ?? []
  const inner = part?.type === 'DoubleQuoted' && part.parts.length === 1 ? part.parts[0] : part
  if (more !== undefined || inner?.type !== 'CommandExpansion') return false
  const first = inner.script?.commands[0]?.command
  return first?.type === 'Command' && /^(printf|echo)$/.test(first.name?.value ?? '')
}

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
