import { givenPaths, sendingPaths } from '../tables/senders.ts'
import type { Program, Shell } from '../types.ts'

/** Where a subcommand may begin: at the first word that is no option, or the next: 1 and 2 for `-C folder push`. */
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

/** Whether the words of `path` stand in this order from `from` on, perhaps with options between. */
function hasPath(args: readonly string[], from: number, path: readonly string[]): boolean {
  let at = from
  for (const word of path) {
    while (at > from && args[at]?.startsWith('-') === true && word !== args[at]?.toLowerCase()) at += 1
    if (args[at]?.toLowerCase() !== word) return false
    at += 1
  }
  return true
}

/** The subcommand in the arguments that sends data out (`sendingPaths`). */
export function sendingPath(name: string, args: readonly string[], valued?: RegExp): string | undefined {
  const paths = sendingPaths.get(name)
  if (paths === undefined || onlyHelp(args)) return undefined
  const from = starts(args, valued)
  return paths.find((path) => from.some((at) => hasPath(args, at, path)))?.join(' ')
}

/** The subcommand that sends data out if it gets data (`givenPaths`), and gets some. */
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

const onlyHelp = (args: readonly string[]): boolean =>
  args.at(-1) === '--help' &&
  args.length <= 4 &&
  args.slice(0, -1).every((arg) => /^[a-z][a-z:.-]*$/.test(arg))

/** Notes a subcommand that sends data out, and returns whether there is one. */
export function sendsByPath(shell: Shell, name: string, args: readonly string[], valued?: RegExp): boolean {
  const path = sendingPath(name, args, valued)
  if (path !== undefined) shell.note('egress', `\`${name} ${path}\` sends data out`)
  return path !== undefined
}

export const bySubcommand: Program = (args, shell, _, name) => {
  sendsByPath(shell, name, args)
}
