import type { Word, WordPart } from 'unbash'

/* Texts in which bash runs `$(...)` in spite of quotes, or which it reads again. The parser shows no commands. */

/** In arithmetic, subscripts and slices, bash runs a substitution in spite of single quotes. */
export const runsBetweenQuotes = (raw: string): boolean => raw.includes("'") && /\$\(|`/.test(raw)

export const runsInArithmetic = (raw: string): boolean => runsBetweenQuotes(raw) || changesNamesIn(raw)

/** Whether `declare -i`, `test -v` or `$(( x ))` runs code: `a[$(b)]`, or a new meaning of a command name. */
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

/** The name of the variable if the word is nothing else: `$x` or `"$x"`. */
export function onlyVariable(word: Word): string | undefined {
  const [part, more] = word.parts ?? []
  if (more !== undefined) return undefined
  const inner = part?.type === 'DoubleQuoted' && part.parts.length === 1 ? part.parts[0] : part
  if (inner?.type === 'SimpleExpansion') return inner.text.slice(1)
  return inner?.type === 'ParameterExpansion' ? inner.parameter : undefined
}

export function onlyPrinted(word: Word): boolean {
  const [part, more] = word.parts ?? []
  const inner = part?.type === 'DoubleQuoted' && part.parts.length === 1 ? part.parts[0] : part
  if (more !== undefined || inner?.type !== 'CommandExpansion') return false
  const first = inner.script?.commands[0]?.command
  return first?.type === 'Command' && /^(printf|echo)$/.test(first.name?.value ?? '')
}

/** A space replaces each expansion, because expansions are read elsewhere. */
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

/** The text of a bracket pattern that no file matches, such as `[\$\(c\)]`: it can become a subscript. */
export const bracketed = (part: Extract<WordPart, { type: 'Glob' }>): string =>
  `[${part.parts === undefined ? part.value.slice(1, -1) : literals(part.parts)}]`

/** Arrays in which bash stores the meaning of command names: program paths and aliases. */
const bash = 'BASH_CMDS|BASH_ALIASES'
const ofBash = new RegExp(`^(${bash})$`)
/** Arrays of zsh. Scripts often have variables of these names, so only setting an element counts. */
const ofZsh = /^(functions|g?aliases|saliases|commands)$/

/** Whether setting the variable, or an element of it, changes what a command name stands for, as `hash -p` does. */
export const changesNames = (name: string, element: boolean): boolean =>
  ofBash.test(name) || (element && ofZsh.test(name))

/** `(( BASH_CMDS[ls]=5 ))` changes which program a command name stands for. */
export const changesNamesIn = (expression: string): boolean => expressions.test(expression)
const expressions = new RegExp(`\\b(${bash})\\b`)
