import type { Word, WordPart } from 'unbash'
import { changesNamesIn } from '../tables/names.ts'

/*
 * Finds two kinds of texts. In the first kind, bash runs `$(...)` in spite of quotes. The second kind, bash evaluates
 * again as an expression. The parser shows no commands in these texts, so the texts count as scripts.
 */

/**
 * Whether a raw text has single quotes and a substitution. In arithmetic, subscripts and slices, bash runs the
 * substitution in spite of the quotes.
 */
export const runsBetweenQuotes = (raw: string): boolean => raw.includes("'") && /\$\(|`/.test(raw)

/** Whether a raw expression runs code in spite of quotes, or changes which program a command name stands for. */
export const runsInArithmetic = (raw: string): boolean => runsBetweenQuotes(raw) || changesNamesIn(raw)

/**
 * Whether bash would run code by evaluating the text as an expression, as in `declare -i`, `test -v` or `$(( x ))`.
 * This is so if the text has a substitution in a subscript (`a[$(b)]`), or changes which program a command name stands
 * for.
 */
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

/**
 * Returns the name of the variable if the word is one variable and nothing else, such as `$x` or `"$x"`. Otherwise
 * returns undefined.
 */
export function onlyVariable(word: Word): string | undefined {
  const [part, more] = word.parts ?? []
  if (more !== undefined) return undefined
  const inner = part?.type === 'DoubleQuoted' && part.parts.length === 1 ? part.parts[0] : part
  if (inner?.type === 'SimpleExpansion') return inner.text.slice(1)
  return inner?.type === 'ParameterExpansion' ? inner.parameter : undefined
}

/** Whether the whole word is the output of `printf` or `echo`. */
export function onlyPrinted(word: Word): boolean {
  const [part, more] = word.parts ?? []
  const inner = part?.type === 'DoubleQuoted' && part.parts.length === 1 ? part.parts[0] : part
  if (more !== undefined || inner?.type !== 'CommandExpansion') return false
  const first = inner.script?.commands[0]?.command
  return first?.type === 'Command' && /^(printf|echo)$/.test(first.name?.value ?? '')
}

/** The literal text of a word. A space replaces each expansion, because expansions are read elsewhere. */
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

/**
 * Returns the text of a bracket pattern such as `[\$\(c\)]`. If no file matches the pattern, the shell keeps this text.
 * The text can then become a subscript.
 */
export const bracketed = (part: Extract<WordPart, { type: 'Glob' }>): string =>
  `[${part.parts === undefined ? part.value.slice(1, -1) : literals(part.parts)}]`
