import { givenPaths, sendingPaths } from '../tables/senders.ts'
import type { Program } from '../types.ts'

/**
 * Where a program's subcommand may begin among its arguments: its first word that is no option; and, as that may be the
 * value of an option in front of it, the words behind it as long as the same can be said of each.
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

/** Whether the words of a path come first, in this order, from there on; options may stand between them. */
export function hasPath(args: readonly string[], from: number, path: readonly string[]): boolean {
  let at = from
  for (const word of path) {
    while (at < args.length && at > from && args[at]?.startsWith('-') === true && word !== args[at]) at += 1
    if (args[at]?.toLowerCase() !== word) return false
    at += 1
  }
  return true
}

/** The sending subcommand of the table that these arguments ask for. */
export function sendingPath(name: string, args: readonly string[], valued?: RegExp): string | undefined {
  const paths = sendingPaths.get(name)
  if (paths === undefined || onlyHelp(args)) return undefined
  const from = starts(args, valued)
  return paths.find((path) => from.some((at) => hasPath(args, at, path)))?.join(' ')
}

/** The sending subcommand that these arguments ask for together with data to send. */
export function givenPath(name: string, args: readonly string[]): string | undefined {
  const paths = givenPaths.get(name)
  if (paths === undefined || onlyHelp(args)) return undefined
  const from = starts(args)
  return paths
    .find(
      ([path, word]) => args.some((arg) => word.test(arg)) && from.some((at) => hasPath(args, at, path)),
    )?.[0]
    .join(' ')
}

/** `git push --help` and its like show a text and do nothing. */
const onlyHelp = (args: readonly string[]): boolean =>
  args.at(-1) === '--help' &&
  args.length <= 4 &&
  args.slice(0, -1).every((arg) => /^[a-z][a-z:.-]*$/.test(arg))

/** A program of which nothing but its sending subcommands is known. */
export const bySubcommand: Program = (args, shell, _, name) => {
  const path = sendingPath(name, args)
  if (path !== undefined) shell.note('egress', `\`${name} ${path}\` sends data out`)
}
