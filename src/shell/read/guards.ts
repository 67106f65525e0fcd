import type { Word, WordPart } from 'unbash'
import { changesNamesIn } from '../tables/names.ts'

/*
 * Where bash runs `$(...)` although quotes stand around it, or reads a text again as an expression. No parser shows
 * these as commands, so a text that could be one counts as a script.
 */

/** In arithmetic, subscripts and slices single quotes protect nothing. */
export const runsBetweenQuotes = (raw: string): boolean => raw.includes("'") && /\$\(|`/.test(raw)

/** An expression as it stands, which can give a value to what a name runs as well. */
export const runsInArithmetic = (raw: string): boolean => runsBetweenQuotes(raw) || changesNamesIn(raw)

/** A subscript with a substitution in it, which `declare -i`, `test -v`, `[[ -eq ]]`, `$(( x ))` ... would run. */
export const runsWhenEvaluated = (text: string): boolean =>
  runsInSubscript(text) || (text.includes('=') && changesNamesIn(text))

function runsInSubscript(text: string): boolean {
  let open = 0
  for (let at = text.indexOf('['); at >= 0 && at < text.length; at += 1) {
    const sign = text[at]
    if (sign === '[') open += 1
    else if (sign === ']') open = Math.max(0, open - 1)
    else if (open > 0 && (sign === '`' || (sign === '$' && text[at + 1] === '('))) return true
  }
  return false
}

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
  return word.parts === undefined ? word.value : literals(word.parts)
}

const literals = (parts: readonly WordPart[]): string =>
  parts
    .map((part) => {
      if (part.type === 'DoubleQuoted' || part.type === 'LocaleString')
        return part.parts.map((child) => (child.type === 'Literal' ? child.value : ' ')).join('')
      if (part.type === 'Glob' && part.kind === 'bracket') return bracketed(part)
      const quoted = part.type === 'Literal' || part.type === 'SingleQuoted' || part.type === 'AnsiCQuoted'
      return quoted ? part.value : ' '
    })
    .join('')

/** `[\$\(c\)]`: to a shell that finds no such file, or looks for none, the text of a subscript. */
export const bracketed = (part: Extract<WordPart, { type: 'Glob' }>): string =>
  `[${part.parts === undefined ? part.value.slice(1, -1) : literals(part.parts)}]`
