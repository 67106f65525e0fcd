/*
 * What is read before a command counts as too long or too tangled (specification, "Classification of agent tool calls",
 * remark 3). The parser reads 10,000 characters in about a millisecond; what nests is what takes long, for it reads a
 * nested part again for every level. `npm run bench shell` shows what the limits allow.
 */
export const longest = 10_000
/** `$(`, backtick, `<(`, `>(`, `${`, `$[`, `((`: each may open a level. */
export const mostOpeners = 64
/** Words and operators: each becomes an object, and collecting those takes longer than reading them. */
export const mostParts = 1_500
/** Heredocs opened on one line take the parser quadratic time. */
export const mostHeredocs = 24
/** Levels of syntax inside each other, and of commands run by commands. */
export const deepest = 120
export const deepestRuns = 10
/** Characters of nested parts that may be looked at, again for every level, and steps of our own. */
export const fuel = 10_000
/** What a text that is read as code, and a command, cost beyond their length. */
export const perCode = 150
export const perCommand = 20
/** Readings of one word or command, when variables can have several values. */
export const mostAlternatives = 12
/** How much of a text that cannot be read is searched for senders: Linux starts nothing with a longer argument. */
export const longestScan = 131_072
/** A word put together from variables may not outgrow this. */
export const longestWord = 20_000

const openers = /\$[({[]|`|[<>]\(|\(\(/g

/** How much of a text is read, in characters, and why not all of it, if so. */
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
