/** The options of a program: letters (`-c`) and long names (`--command`). */
export interface OptionTable {
  /** The letters of options without a value. */
  readonly flags?: string
  /** The letters of options with a value. The value is attached to the letter, or is the next word. */
  readonly values?: string
  /** The letters of options with an optional value, which is attached to the letter. */
  readonly attached?: string
  /** The long names of options without a value, or with an optional value after `=`. Spaces separate the names. */
  readonly longFlags?: string
  /** The long names of options with a value. Spaces separate the names. */
  readonly long?: string
  /** Whether options may also follow operands. */
  readonly anywhere?: boolean
  /** Options may also follow an operand that matches this expression: `sudo NAME=value -u user command`. */
  readonly between?: RegExp
  /**
   * The names of an option that ends the options, such as `-S` of env. All words after the value of this option are
   * operands.
   */
  readonly last?: string
}

/** Options of the bash builtins `read` and `mapfile`. Both builtins read input into variables. */
export const optionsOfRead: OptionTable = { flags: 'ers', values: 'adinNptu' }
export const optionsOfMapfile: OptionTable = { flags: 't', values: 'dnOsuCc' }

export interface Read {
  /**
   * The words that are not options. If options cannot follow operands, this is every word from the first operand on.
   */
  readonly rest: readonly string[]
  readonly options: readonly (readonly [name: string, value: string | undefined])[]
  /** Whether an unknown option was found. It is then uncertain whether the next word is the value of this option. */
  readonly unsure: boolean
}

const lists = new Map<string, readonly string[]>()
/** Splits a list of names at its spaces. Each list is split only once. */
function names(list = ''): readonly string[] {
  const known = lists.get(list)
  if (known !== undefined) return known
  const found = list.split(' ').filter((name) => name !== '')
  lists.set(list, found)
  return found
}

interface Long {
  readonly name: string
  readonly takes: boolean
  readonly known: boolean
}

/**
 * Returns the long option that `given` means. GNU programs accept the beginning of a long name: `--comm` for
 * `--command`. If several names begin with `given`, the option counts as unknown.
 */
function longOption(given: string, table: OptionTable): Long {
  const [flags, taking] = [names(table.longFlags), names(table.long)]
  if (flags.includes(given)) return { name: given, takes: false, known: true }
  if (taking.includes(given)) return { name: given, takes: true, known: true }
  const begins = (name: string): boolean => given !== '' && name.startsWith(given)
  const taken = taking.filter(begins)
  const [name, ...more] = [...taken, ...flags.filter(begins)]
  const known = name !== undefined && more.length === 0
  return { name: known ? name : given, takes: taken.length > 0, known }
}

/**
 * Reads options as getopt_long does. Options can be bundled (`-xv`), abbreviated (`--comm`) or have an attached value
 * (`-ofile`). The result has each long name in full and without dashes: `-c` becomes `c`, and `--comm` becomes
 * `command`.
 */
export function readOptions(args: readonly string[], table: OptionTable): Read {
  const options: (readonly [string, string | undefined])[] = []
  const operands: string[] = []
  const ends = names(table.last)
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
      const { name, takes, known } = longOption(given, table)
      options.push([name, value === undefined && takes ? args[++at] : value])
      ended = ends.includes(name)
      if (value === undefined && !known) unsure = true
    } else {
      for (let letter = 1; letter < arg.length; letter += 1) {
        const name = arg[letter] ?? ''
        const value = letter + 1 < arg.length ? arg.slice(letter + 1) : undefined
        const takes = table.values?.includes(name) === true
        const attached = table.attached?.includes(name) === true
        options.push([name, takes ? (value ?? args[++at]) : attached ? value : undefined])
        if (takes || attached) {
          ended = ends.includes(name)
          break
        }
        if (table.flags?.includes(name) !== true && !/\d/.test(name)) unsure = true
      }
    }
  }
  return { rest: [...operands, ...args.slice(at)], options, unsure }
}

/** The last value of an option. `names` are all names of the option. */
export const valueOf = (read: Read, ...names: string[]): string | undefined =>
  read.options.findLast(([name]) => names.includes(name))?.[1]
export const has = (read: Read, ...names: string[]): boolean =>
  read.options.some(([name]) => names.includes(name))
/** All values of an option. `names` are all names of the option. */
export const valuesOf = (read: Read, ...names: string[]): string[] =>
  read.options.flatMap(([name, value]) => (names.includes(name) && value !== undefined ? [value] : []))
