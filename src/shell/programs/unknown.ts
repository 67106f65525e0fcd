import { asCode, output } from '../marks.ts'
import { fetchingTools, fileTools, namesPrograms, namingVerbs } from './command-options.ts'
import { keeps, senders } from '../tables/senders.ts'
import { testTools } from '../tables/tools.ts'
import type { Call, Shell } from '../types.ts'
import { givenPath, starts } from './paths.ts'

const given = 'a program is given a command that sends data out'

/** Whether one of the first 12 words starts a command that sends data out, or is shell code that does. */
export function mayRun(args: readonly string[], shell: Shell, call: Call): boolean {
  return args
    .slice(0, 12)
    .some(
      (word, at) =>
        shell.attempt(() => shell.run(args.slice(at), call)) === 'egress' ||
        (/\s/.test(word) && shell.attempt(() => shell.code(asCode(word))) === 'egress'),
    )
}

/** An unknown program may run these words: `program ... -- command`. */
export function readBehindDashes(args: readonly string[], shell: Shell, call: Call): void {
  const at = args.indexOf('--')
  const rest = at < 0 ? [] : args.slice(at + 1)
  if (rest.length > 1) shell.suspects(given, () => shell.run(rest, call))
}

/** Its value is usually a command: `-exec`, `--command`, `--password-command`. */
const commandOption = /^--?(?:[a-z-]+-)?(?:exec|command|cmd|run|shell|app)(?:=(.*))?$/s

export function readCommandValues(args: readonly string[], shell: Shell): void {
  for (const [at, arg] of args.entries()) {
    const option = arg.startsWith('-') ? commandOption.exec(arg) : null
    if (option === null) continue
    const value = option[1] ?? args[at + 1] ?? ''
    if (/\s/.test(value)) shell.suspects(given, () => shell.code(asCode(value)))
  }
}

/** Words after which a program usually starts another: `exec`, `local:run`, `--run`, `lock`. */
const launches = /^(-.*[:-]|--?|[\w:-]*:)?(exec|run|lock|watch|spawn)$/

/** A subcommand that the program's reader does not know may start a program. */
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

/** A subcommand may give data to a service that stores it. A known program's own function reads the arguments too. */
export function readGiven(name: string, args: readonly string[], shell: Shell): void {
  const path = givenPath(name, args)
  if (path !== undefined) shell.note('egress', `\`${`${name} ${path}`.trim()}\` sends data out`)
  else if (name === 'aws' && args.some((arg) => keeps.test(arg)) && args.some((arg) => arg.includes(output)))
    shell.note('egress', '`aws` keeps what a command prints')
}

const here = /^(file:|\w+:\/\/([^/@\s]*@)?(localhost|127\.0\.0\.1|\[::1\])([:/]|$))/i

/** An address with the output of a command is egress. Programs that only print or edit texts open none. */
export function readAddresses(args: readonly string[], shell: Shell): void {
  for (const arg of args) {
    const address = /^(?:--?[\w-]+=)?(\w[\w+.-]*:\/\/.*)$/s.exec(arg)?.[1]
    if (address !== undefined && address.includes(output) && !here.test(address))
      return shell.note('egress', 'an address is made of what a command prints')
  }
}

/** Their words are names, texts or files, and they send nothing. */
const isLenient = (name: string, shell: Shell): boolean =>
  namesPrograms.has(name) ||
  /(lint|fmt|format|spell|check|grep|diff|zip)$/.test(name) ||
  testTools.has(name) ||
  shell.isFunction(name)

const bucketAddress = /^(--?[\w-]+=)?(s3|s3a|s3n|gs|abfss?|wasbs?|oss|cos|r2|hf):\/\//i

/** A program that nobody knows may send what it is given: the content of a file, or what another command prints. */
export function readData(name: string, args: readonly string[], shell: Shell, call: Call): void {
  if (isLenient(name, shell) || !/^\w[\w@.+-]*$/.test(name)) return
  const words = args.filter((arg) => !arg.startsWith('-'))
  if (args.some((arg) => bucketAddress.test(arg)))
    shell.note(
      words.slice(2).some((word) => bucketAddress.test(word)) ? 'egress' : 'script',
      'a program that is not known works with a bucket',
    )
  if (call.fed || args.some((arg) => arg.includes(output)))
    shell.note('script', 'a program that is not known is given data')
}

/** Searches for a command that sends data out: `program ... curl address`. */
export function readSenders(name: string, args: readonly string[], shell: Shell): void {
  if (isLenient(name, shell)) return
  const at = args.findIndex((arg) => senders.has(/[^/]*$/.exec(arg)?.[0] ?? ''))
  if (at < 0 || at + 1 >= args.length || args.slice(0, at).some((arg) => namingVerbs.test(arg))) return
  shell.note('egress', given)
}

export const opensAddresses = (name: string): boolean => !fileTools.has(name) || fetchingTools.has(name)

export const onlyFiles = (name: string): boolean => fileTools.has(name)
