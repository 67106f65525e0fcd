/*
 * A command that exceeds these limits counts as too long or too tangled to read. The parser reads 10,000 characters in
 * about a millisecond. But it reads a nested part again for every level. `npm run bench shell` measures the time that a
 * command can take within the limits.
 */
/** Maximum characters of a text that is parsed. */
export const longest = 10_000
/** Maximum number of `$(`, backticks, `<(`, `>(`, `${`, `$[` and `((` in a text. Each may open a level of nesting. */
export const mostOpeners = 64
/**
 * Maximum number of words and operators. The parser makes an object for each, and garbage collection of these objects
 * takes longer than parsing.
 */
export const mostParts = 1_500
/** Maximum number of heredocs. The parser needs quadratic time for many heredocs on one line. */
export const mostHeredocs = 24
/** Maximum depth of nested syntax. */
export const deepest = 120
/** Maximum depth of commands that run commands, such as `bash -c 'bash -c ls'`. */
export const deepestRuns = 10
/**
 * Maximum steps of work for the whole classification. A nested part costs a step for each character, again at every
 * level.
 */
export const fuel = 10_000
/**
 * The number of steps of work for each nested text that is read as code, in addition to one step for each character.
 */
export const perCode = 150
/** The number of steps of work for each command, in addition to one for each of its words. */
export const perCommand = 20
/**
 * Maximum number of readings of one word or command. If a variable can have several values, each value gives a reading.
 */
export const mostAlternatives = 12
/**
 * An unreadable text is searched for programs that send data out, up to this many characters. Linux accepts no argument
 * with more characters.
 */
export const longestScan = 131_072
/** Maximum characters of a word built from variables. */
export const longestWord = 20_000

const openers = /\$[({[]|`|[<>]\(|\(\(/g

/**
 * Returns as `length` how many characters of a text can be read, and as `because` why the rest cannot be read. If the
 * whole text can be read, `because` is undefined.
 */
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
