/* Beyond these, a command is too long or too tangled to read. `npm run bench shell` measures the worst times. */
/** Maximum characters of a text that is parsed. */
export const longest = 10_000
/** Maximum number of `$(`, backticks, `<(`, `>(`, `${`, `$[` and `((` in a text. Each may open a level of nesting. */
const mostOpeners = 64
/** The parser makes an object for each word and operator; collecting them takes longer than parsing. */
const mostParts = 1_500
/** Maximum number of heredocs. The parser needs quadratic time for many heredocs on one line. */
const mostHeredocs = 24
export const deepest = 120
/** Maximum depth of commands that run commands, such as `bash -c 'bash -c ls'`. */
export const deepestRuns = 10
/** Steps of work for the whole classification. A nested part costs a step a character, again at every level. */
export const fuel = 10_000
/** Steps for each nested text that is read as code, beside one for each character. */
export const perCode = 150
/** Steps for each command, beside one for each of its words. */
export const perCommand = 20
/** Maximum readings of one word or command: each value that a variable can have gives one. */
export const mostAlternatives = 12
/** An unreadable text is searched for senders up to here. Linux accepts no argument with more characters. */
export const longestScan = 131_072
/** Maximum characters of a word built from variables. */
export const longestWord = 20_000

const openers = /\$[({[]|`|[<>]\(|\(\(/g

/** How many characters of a text can be read, and why the rest cannot; undefined if the whole text can. */
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
