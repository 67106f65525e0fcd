import { unknown } from '../marks.ts'
import { wrappers } from '../tables/wrappers.ts'
import type { Program, Shell } from '../types.ts'
import { has, readOptions, valueOf, valuesOf } from './options.ts'

const tellsItself = /^--(help|version)$/

/** Reads the arguments of a wrapper (`tables/wrappers.ts`), and the command that the wrapper runs. */
export const wrapper: Program = (args, shell, call, name) => {
  const table = wrappers[name]
  if (table === undefined || (args.length === 1 && tellsItself.test(args[0] ?? ''))) return
  const read = readOptions(table.first === true && /^[^-]/.test(args[0] ?? '') ? args.slice(1) : args, table)
  if (table.shows !== undefined && has(read, ...table.shows.split(' '))) return
  if (read.unsure) suspectEverything(args, shell)
  const splits = name === 'env' ? valueOf(read, 'S', 'split-string') : undefined
  if (splits !== undefined) return shell.run(splitString(splits, read.rest), call)
  let rest = read.rest
  const assign = (): void => {
    // For env, every word with an equals sign sets a variable, even if the name is unusual, such as `BASH_FUNC_ls%%`.
    // bash makes a function from such a variable.
    while (table.assignments === true && /^[^=]+=/.test(rest[0] ?? '')) {
      const [, key = '', value = ''] = /^([^=]+)=(.*)$/s.exec(rest[0] ?? '') ?? []
      shell.environment(key, value)
      rest = rest.slice(1)
    }
    // `env -i - name`: a lone dash is an option.
    if (name === 'env' && rest[0] === '-') rest = rest.slice(1)
  }
  assign()
  if (table.instead === undefined || !has(read, ...table.instead.split(' ')))
    rest = rest.slice(table.skip ?? 0)
  if (name === 'dotenv' && rest[0] === 'run') rest = rest.slice(1)
  if (rest[0] === '--') rest = rest.slice(1)
  assign()
  const options = table.code?.split(' ') ?? []
  const codes = [...valuesOf(read, ...options), ...trailingCode(rest, options)]
  for (const code of table.each === true ? [...codes, ...rest] : codes) shell.code(code)
  if (codes.length > 0 || table.each === true) return
  if (table.joined === true) shell.code(rest.join(' '))
  else if (rest.length > 0) shell.run(rest, call)
  else if (table.shell === true || (name === 'sudo' && has(read, 'i', 's', 'login', 'shell')))
    shell.note('script', `\`${name}\` starts a shell`)
}

/** The code in `flock file -c code`, where the option comes after the operand. */
function trailingCode(rest: readonly string[], options: readonly string[]): string[] {
  const option = /^--?(\w+)$/.exec(rest[0] ?? '')?.[1]
  return option !== undefined && options.includes(option) && rest[1] !== undefined ? [rest[1]] : []
}

/** Judges arguments in which any word may begin the command, because an option is unknown. */
export function suspectEverything(args: readonly string[], shell: Shell): void {
  shell.note('script', 'an option in front of the command is not known')
  const sends = args.slice(0, 40).some((_, at) => shell.attempt(() => shell.run(args.slice(at))) === 'egress')
  if (sends) shell.note('egress', 'it sends data out, behind options that are not known')
}

/**
 * `env -S 'program arguments'` splits the text after `-S` at white space. env then reads the words as its own
 * arguments.
 */
function splitString(text: string, rest: readonly string[]): string[] {
  const plain = text.replaceAll(/\\[_tnrvf]/g, ' ').replaceAll(/["'\\]/g, '')
  return ['env', ...plain.split(/\s+/), ...rest].filter((word) => word !== '')
}

/**
 * Reads the arguments of xargs. xargs appends the words of its input to the command. With `-I`, xargs puts its input in
 * place of a mark in the command.
 */
export const xargs: Program = (args, shell) => {
  const read = readOptions(args, {
    flags: '0rtpxo',
    values: 'adEILnPsJRS',
    attached: 'eil',
    long: 'arg-file delimiter max-args max-procs max-chars process-slot-var',
    longFlags:
      'null no-run-if-empty verbose interactive exit open-tty show-limits max-lines replace eof help version',
  })
  if (read.unsure) suspectEverything(args, shell)
  const mark = valueOf(read, 'I', 'J', 'i', 'replace') ?? (has(read, 'i', 'I', 'replace') ? '{}' : undefined)
  const command = mark === undefined ? read.rest : read.rest.map((word) => word.replaceAll(mark, unknown))
  if (command.length > 0) shell.run(mark === undefined ? [...command, unknown] : command)
}

/**
 * Reads the arguments of `su` and `runuser`. Both run the code of `-c` as another user, or start a shell of this user.
 * `runuser -u` runs the command in its arguments.
 */
export const su: Program = (args, shell, call, name) => {
  const read = readOptions(args, {
    flags: 'flmpP-',
    values: 'sgGwcu',
    long: 'shell group supp-group whitelist-environment command session-command user',
    longFlags: 'login preserve-environment pty help version',
    anywhere: true,
  })
  const code = valueOf(read, 'c', 'command', 'session-command')
  if (read.unsure) suspectEverything(args, shell)
  if (code !== undefined) return shell.code(code)
  const user = valueOf(read, 'u', 'user')
  if (user !== undefined && name === 'runuser') {
    const at = args.findIndex((arg) => arg === user || arg.endsWith(`=${user}`) || arg === `-u${user}`)
    return shell.run(
      args.slice(at + 1).filter((arg, index) => index > 0 || arg !== '--'),
      call,
    )
  }
  shell.note('script', `\`${name}\` starts a shell`)
}

/**
 * Reads the arguments of GNU parallel. parallel runs the words before `:::` as shell code. If there are no such words,
 * it runs the words after `:::` or the lines of its input.
 */
export const parallel: Program = (args, shell, call) => {
  const read = readOptions(args, {
    flags: '0XmqktuvVr',
    values: 'jnNPLIsaCdEiSp',
    long: 'jobs max-args max-replace-args max-procs joblog results delay timeout retries colsep arg-file delimiter tmpdir workdir load memfree basefile sshlogin sshloginfile return tagstring halt pipepart block recstart recend profile env tempdir',
    longFlags:
      'bar progress eta dry-run dryrun keep-order ungroup group line-buffer lb tag verbose no-run-if-empty null plain pipe will-cite citation bg fg wait semaphore resume resume-failed shuf silent quote xargs link ctrlc onall nonall help version halt-on-error cleanup transfer round-robin',
  })
  if (has(read, 'S', 'sshlogin', 'sshloginfile')) shell.note('egress', '`parallel` runs it on other machines')
  if (read.unsure) suspectEverything(args, shell)
  const end = read.rest.findIndex((word) => word.startsWith(':::'))
  const words = end < 0 ? read.rest : read.rest.slice(0, end)
  if (words.length > 0) return shell.code(words.join(' ').replaceAll(/\{[^{}]*\}/g, unknown))
  const lines = end < 0 ? call.input : read.rest.slice(end + 1).join('\n')
  shell.note('script', '`parallel` runs the lines it is given')
  if (lines !== undefined) shell.code(lines)
}
