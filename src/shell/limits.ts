/*
 * Limits above which a command counts as too long or too tangled. The parser reads 10,000 characters in about a
 * millisecond, but reads a nested part again for every level. `npm run bench shell` shows the time that the limits
 * allow.
 */
export const longest = 10_000
/** `$(`, backtick, `<(`, `>(`, `${`, `$[`, `((`: each may open a level. */
export const mostOpeners = 64
/** Words and operators. Each becomes an object, and collecting objects takes longer than reading them. */
export const mostParts = 1_500
/** Many heredocs on one line take the parser quadratic time. */
export const mostHeredocs = 24
/** Levels of nested syntax, and of commands run by commands. */
export const deepest = 120
export const deepestRuns = 10
/** Steps of work, including the characters of nested parts, counted again for every level. */
export const fuel = 10_000
/** Steps that each text read as code, and each command, cost in addition to their length. */
export const perCode = 150
export const perCommand = 20
/** Maximum number of readings of one word or command, if variables can have several values. */
export const mostAlternatives = 12
/** Characters of an unreadable text that are searched for senders. Linux accepts no longer argument. */
export const longestScan = 131_072
/** Maximum characters of a word built from variables. */
export const longestWord = 20_000

const openers = /\$[({[]|`|[<>]\(|\(\(/g

/** How many characters of a text are read, and the reason if some are not read. */
export function readable(text: string): { readonly length: number; readonly because: string | undefined } {
  let length = text.length
  let because: string | undefined
  const cut = (at: number, why: string): void => {
    if (at >= length) return
    length = at
    because = why
  }
  if (length > longest) cut(longest, 'the command is too long to read')
  const start = text.slice(0, longest)
  nth(start, openers, mostOpeners + 1, (at) => cut(at, 'the command is too tangled to read'))
  nth(start, /[\s;|&()<>]+/g, mostParts + 1, (at) => cut(at, 'the command is too long to read'))
  nth(start, /<<(?!<)/g, mostHeredocs + 1, (at) => cut(at, 'the command is too tangled to read'))
  return { length, because }
}

function nth(text: string, what: RegExp, count: number, found: (at: number) => void): void {
  let seen = 0
  for (const match of text.matchAll(what)) if (++seen === count) return found(match.index)
}
