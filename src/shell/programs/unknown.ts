import { asCode, output } from '../marks.ts'
import { fetchingTools, fileTools, namesPrograms, namingVerbs } from '../tables/command-options.ts'
import { keeps, senders } from '../tables/senders.ts'
import { testTools } from '../tables/tools.ts'
import type { Call, Shell } from '../types.ts'
import { givenPath, starts } from './paths.ts'

const given = 'a program is given a command that sends data out'

/**
 * Whether one of the first 12 words starts a command that sends data out. A word with white space may also be shell
 * code that sends data out.
 */
export function mayRun(args: readonly string[], shell: Shell, call: Call): boolean {
  return args
    .slice(0, 12)
    .some(
      (word, at) =>
        shell.attempt(() => shell.run(args.slice(at), call)) === 'egress' ||
        (/\s/.test(word) && shell.attempt(() => shell.code(asCode(word))) === 'egress'),
    )
}

/** Reads the words after `--`. An unknown program may run these words as a command: `program ... -- command`. */
export function readBehindDashes(args: readonly string[], shell: Shell, call: Call): void {
  const at = args.indexOf('--')
  const rest = at < 0 ? [] : args.slice(at + 1)
  if (rest.length > 1 && shell.attempt(() => shell.run(rest, call)) === 'egress') shell.note('egress', given)
}

/** An option whose value is usually a command: `-exec`, `--command`, `--password-command`. */
const commandOption = /^--?(?:[a-z-]+-)?(?:exec|command|cmd|run|shell|app)(?:=(.*))?$/s

/** Reads the values of options whose names say that the value is a command. Such a command may send data out. */
export function readCommandValues(args: readonly string[], shell: Shell): void {
  for (const [at, arg] of args.entries()) {
    const option = arg.startsWith('-') ? commandOption.exec(arg) : null
    if (option === null) continue
    const value = option[1] ?? args[at + 1] ?? ''
    if (/\s/.test(value) && shell.attempt(() => shell.code(asCode(value))) === 'egress')
      shell.note('egress', given)
  }
}

/** Words after which a program usually starts another program: `exec`, `local:run`, `--run`, `lock`. */
const launches = /^(-.*[:-]|--?|[\w:-]*:)?(exec|run|lock|watch|spawn)$/

/**
 * Reads the arguments of a program whose reader only knows some subcommands. Another subcommand may start a program. So
 * the words after such a subcommand are read as a command, and the words after `--` too.
 */
export function readLaunched(args: readonly string[], shell: Shell, call: Call): void {
  const verb = args.slice(0, 6).findIndex((arg) => launches.test(arg))
  const dashes = args.indexOf('--')
  if (verb >= 0 && mayRun(args.slice(verb + 1), shell, call)) shell.note('egress', given)
  for (const from of [verb, dashes]) {
    const rest = from < 0 ? [] : args.slice(from + 1)
    const commands = starts(rest).map((at) => rest.slice(at))
    const [code = ''] = rest
    if (/\s/.test(code)) commands.push(['eval', asCode(code)])
    if (commands.some((command) => shell.attempt(() => shell.run(command, call)) !== 'write'))
      shell.note('script', 'a program is given a command that runs code')
  }
}

/**
 * Records the effect `egress` if a subcommand gives data to a service that stores the data. If the program is known,
 * its own function in known-programs.ts reads the arguments too.
 */
export function readGiven(name: string, args: readonly string[], shell: Shell): void {
  const path = givenPath(name, args)
  if (path !== undefined) shell.note('egress', `\`${`${name} ${path}`.trim()}\` sends data out`)
  else if (name === 'aws' && args.some((arg) => keeps.test(arg)) && args.some((arg) => arg.includes(output)))
    shell.note('egress', '`aws` keeps what a command prints')
}

const here = /^(file:|\w+:\/\/([^/@\s]*@)?(localhost|127\.0\.0\.1|\[::1\])([:/]|$))/i

/**
 * Records the effect `egress` if an address in the arguments contains the output of a command: `pip install -i
 * https://$(...)`. Addresses of this machine do not count. Callers skip programs that only print or edit texts, because
 * such programs open no addresses.
 */
export function readAddresses(args: readonly string[], shell: Shell): void {
  for (const arg of args) {
    const address = /^(?:--?[\w-]+=)?(\w[\w+.-]*:\/\/.*)$/s.exec(arg)?.[1]
    if (address !== undefined && address.includes(output) && !here.test(address))
      return shell.note('egress', 'an address is made of what a command prints')
  }
}

/**
 * Searches the arguments of an unknown program for a command that sends data out: `program ... curl address`. Skips
 * programs that take names of programs, packages or services as arguments (`tables/command-options.ts`).
 */
export function readSenders(name: string, args: readonly string[], shell: Shell): void {
  if (
    namesPrograms.has(name) ||
    /(lint|fmt|format|spell|check|grep|diff|zip)$/.test(name) ||
    testTools.has(name) ||
    shell.isFunction(name)
  )
    return
  const at = args.findIndex((arg) => senders.has(/[^/]*$/.exec(arg)?.[0] ?? ''))
  if (at < 0 || at + 1 >= args.length || args.slice(0, at).some((arg) => namingVerbs.test(arg))) return
  shell.note('egress', given)
}

/** Whether a program may open an address in its arguments. */
export const opensAddresses = (name: string): boolean => !fileTools.has(name) || fetchingTools.has(name)

/** Whether all words of a program are files, patterns, texts or package names. Example: `cat`. */
export const onlyFiles = (name: string): boolean => fileTools.has(name)
