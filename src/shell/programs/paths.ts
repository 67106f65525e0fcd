import { givenPaths, sendingPaths } from '../tables/senders.ts'
import type { Program } from '../types.ts'

/**
 * Returns the indexes at which a program's subcommand may begin. The first index is that of the first word that is not
 * an option. If an option stands right before this word, the word may be the value of the option. So the next word that
 * is not an option may also be the subcommand, and so on. Example: for `-C folder push`, returns 1 and 2.
 */
export function starts(args: readonly string[], valued: RegExp = /^$/): number[] {
  const found: number[] = []
  for (let at = 0; at < args.length && found.length < 8; at += 1) {
    const arg = args[at] ?? ''
    const before = args[at - 1] ?? ''
    if (valued.test(arg)) {
      at += 1
      continue
    }
    if (arg.startsWith('-')) continue
    found.push(at)
    if (!before.startsWith('-') || before.includes('=') || before === '--') break
  }
  return found
}

/**
 * Whether the arguments contain the words of `path` in this order, beginning at `from`. Options may stand between the
 * words.
 */
export function hasPath(args: readonly string[], from: number, path: readonly string[]): boolean {
  let at = from
  for (const word of path) {
    while (at > from && args[at]?.startsWith('-') === true && word !== args[at]?.toLowerCase()) at += 1
    if (args[at]?.toLowerCase() !== word) return false
    at += 1
  }
  return true
}

/** Returns a subcommand in the arguments that sends data out (`sendingPaths`), or undefined if there is none. */
export function sendingPath(name: string, args: readonly string[], valued?: RegExp): string | undefined {
  const paths = sendingPaths.get(name)
  if (paths === undefined || onlyHelp(args)) return undefined
  const from = starts(args, valued)
  return paths.find((path) => from.some((at) => hasPath(args, at, path)))?.join(' ')
}

/**
 * Returns a subcommand in the arguments that sends data out if it gets data (`givenPaths`). Returns undefined if there
 * is none, or if the arguments contain no data for it.
 */
export function givenPath(name: string, args: readonly string[]): string | undefined {
  const paths = givenPaths.get(name)
  if (paths === undefined || onlyHelp(args)) return undefined
  const from = starts(args)
  return paths
    .find(
      ([path, word]) =>
        (path.length === 0 || from.some((at) => hasPath(args, at, path))) &&
        args.some((arg, at) => word.test(arg) || word.test(`${arg} ${args[at + 1] ?? ''}`)),
    )?.[0]
    .join(' ')
}

/** Whether the arguments only print a help text, as in `git push --help`. */
const onlyHelp = (args: readonly string[]): boolean =>
  args.at(-1) === '--help' &&
  args.length <= 4 &&
  args.slice(0, -1).every((arg) => /^[a-z][a-z:.-]*$/.test(arg))

/** Reads the arguments of a program whose only relevant subcommands are those that send data out. */
export const bySubcommand: Program = (args, shell, _, name) => {
  const path = sendingPath(name, args)
  if (path !== undefined) shell.note('egress', `\`${name} ${path}\` sends data out`)
}
