/** How a program's options are read: letters and long names, apart by whether a value follows. */
export interface OptionTable {
  /** Letters without a value. */
  readonly flags?: string
  /** Letters with one, attached or as the next word. */
  readonly values?: string
  /** Long names without a value, and with one; separated by spaces. */
  readonly longFlags?: string
  readonly long?: string
  /** Options may stand between operands too. */
  readonly anywhere?: boolean
}

/** Options of bash's builtins that read into variables. */
export const optionsOfRead: OptionTable = { flags: 'ers', values: 'adinNptu' }
export const optionsOfMapfile: OptionTable = { flags: 't', values: 'dnOsuCc' }

export interface Read {
  /** The words that are not options; where options end with the first of them, everything from there. */
  readonly rest: readonly string[]
  readonly options: readonly (readonly [name: string, value: string | undefined])[]
  /** An option the table does not know came by: what follows it may be its value, or not. */
  readonly unsure: boolean
}

const lists = new Map<string, readonly string[]>()
/** A table's names, taken apart once. */
function names(list: string): readonly string[] {
  const known = lists.get(list)
  if (known !== undefined) return known
  const found = list.split(' ')
  lists.set(list, found)
  return found
}

const named = (list: string | undefined, name: string): boolean =>
  list !== undefined && names(list).includes(name)
/** GNU programs take any beginning of a long name that only one option has. */
const begins = (list: string | undefined, name: string): boolean =>
  list !== undefined && name.length > 1 && names(list).some((each) => each.startsWith(name))

/** Reads options as getopt_long does. Long names lose their dashes: `-c` is `c`, `--command` is `command`. */
export function readOptions(args: readonly string[], table: OptionTable): Read {
  const options: (readonly [string, string | undefined])[] = []
  const operands: string[] = []
  let unsure = false
  let at = 0
  for (; at < args.length; at += 1) {
    const arg = args[at] ?? ''
    if (arg === '--') {
      at += 1
      break
    }
    if (!arg.startsWith('-') || arg === '-') {
      if (table.anywhere !== true) break
      operands.push(arg)
    } else if (arg.startsWith('--')) {
      const [, name = '', value] = /^--([^=]*)(?:=(.*))?$/s.exec(arg) ?? []
      const flag = named(table.longFlags, name)
      const takes = named(table.long, name) || (!flag && begins(table.long, name))
      if (value === undefined && takes) options.push([name, args[++at]])
      else options.push([name, value])
      if (value === undefined && !takes && !flag && !begins(table.longFlags, name)) unsure = true
    } else {
      for (let letter = 1; letter < arg.length; letter += 1) {
        const name = arg[letter] ?? ''
        if (table.values?.includes(name) === true) {
          options.push([name, letter + 1 < arg.length ? arg.slice(letter + 1) : args[++at]])
          break
        }
        options.push([name, undefined])
        if (table.flags?.includes(name) !== true && !/\d/.test(name)) unsure = true
      }
    }
  }
  return { rest: [...operands, ...args.slice(at)], options, unsure }
}

/** The last value given to an option under any of its names. */
export const valueOf = (read: Read, ...names: string[]): string | undefined =>
  read.options.findLast(([name]) => names.includes(name))?.[1]
export const has = (read: Read, ...names: string[]): boolean =>
  read.options.some(([name]) => names.includes(name))
