export interface OptionTable {
  /** As for getopt: `-ab:c:: long= flag`. `b` and `long` take a value; one can be attached to `c` and `flag`. */
  readonly options?: string
  /** Whether options may also follow operands. */
  readonly anywhere?: boolean
  /** Options may also follow an operand like this: `sudo NAME=value -u user command`. */
  readonly between?: RegExp
  /** Options such as `-S` of env after whose value all words are operands. */
  readonly last?: string
}

export const optionsOfRead: OptionTable = { options: '-ersa:d:i:n:N:p:t:u:' }
export const optionsOfMapfile: OptionTable = { options: '-td:n:O:s:u:C:c:' }

export interface Read {
  /** The words that are no options: from the first operand on, if options cannot follow operands. */
  readonly rest: readonly string[]
  readonly options: readonly (readonly [name: string, value: string | undefined])[]
  /** Whether an unknown option was found: the next word may then be its value. */
  readonly unsure: boolean
}

interface Known {
  /** The letters without a value, with one, and with an optional one. */
  readonly letters: Readonly<Record<'' | ':' | '::', string>>
  readonly long: readonly string[]
  readonly longFlags: readonly string[]
}
const parsed = new Map<string, Known>()
/** Each table is parsed only once. */
function parse(options = ''): Known {
  const before = parsed.get(options)
  if (before !== undefined) return before
  const letters = { '': '', ':': '', '::': '' }
  const words = options.split(' ').filter((word) => word !== '')
  if (words[0]?.startsWith('-') === true)
    for (const [, letter = '', colons = ''] of words
      .shift()
      ?.slice(1)
      .matchAll(/([^:])(:{0,2})/g) ?? [])
      letters[colons as keyof typeof letters] += letter
  const long = words.filter((word) => word.endsWith('=')).map((word) => word.slice(0, -1))
  const known = { letters, long, longFlags: words.filter((word) => !word.endsWith('=')) }
  parsed.set(options, known)
  return known
}

/** GNU programs accept the beginning of a long name. One that begins several names counts as unknown. */
function longOption(
  given: string,
  { long, longFlags }: Known,
): { name: string; takes: boolean; known: boolean } {
  if (longFlags.includes(given)) return { name: given, takes: false, known: true }
  if (long.includes(given)) return { name: given, takes: true, known: true }
  const begins = (name: string): boolean => given !== '' && name.startsWith(given)
  const taken = long.filter(begins)
  const [name, ...more] = [...taken, ...longFlags.filter(begins)]
  const known = name !== undefined && more.length === 0
  return { name: known ? name : given, takes: taken.length > 0, known }
}

/** As getopt_long does: bundled (`-xv`), abbreviated (`--comm`), attached (`-ofile`). The names found are in full. */
export function readOptions(args: readonly string[], table: OptionTable): Read {
  const options: (readonly [string, string | undefined])[] = []
  const operands: string[] = []
  const ends = table.last?.split(' ') ?? []
  const known = parse(table.options)
  let unsure = false
  let ended = false
  let at = 0
  for (; at < args.length && !ended; at += 1) {
    const arg = args[at] ?? ''
    if (arg === '--') {
      at += 1
      break
    }
    if (!arg.startsWith('-') || arg === '-') {
      if (table.anywhere !== true && table.between?.test(arg) !== true) break
      operands.push(arg)
    } else if (arg.startsWith('--')) {
      const [, given = '', value] = /^--([^=]*)(?:=(.*))?$/s.exec(arg) ?? []
      const option = longOption(given, known)
      options.push([option.name, value === undefined && option.takes ? args[++at] : value])
      ended = ends.includes(option.name)
      if (value === undefined && !option.known) unsure = true
    } else {
      for (let letter = 1; letter < arg.length; letter += 1) {
        const name = arg[letter] ?? ''
        const value = letter + 1 < arg.length ? arg.slice(letter + 1) : undefined
        const takes = known.letters[':'].includes(name)
        const attached = known.letters['::'].includes(name)
        options.push([name, takes ? (value ?? args[++at]) : attached ? value : undefined])
        if (takes || attached) {
          ended = ends.includes(name)
          break
        }
        if (!known.letters[''].includes(name) && !/\d/.test(name)) unsure = true
      }
    }
  }
  return { rest: [...operands, ...args.slice(at)], options, unsure }
}

export const valueOf = (read: Read, ...names: string[]): string | undefined =>
  read.options.findLast(([name]) => names.includes(name))?.[1]
export const has = (read: Read, ...names: string[]): boolean =>
  read.options.some(([name]) => names.includes(name))
export const valuesOf = (read: Read, ...names: string[]): string[] =>
  read.options.flatMap(([name, value]) => (names.includes(name) && value !== undefined ? [value] : []))
