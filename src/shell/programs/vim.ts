import { isUnknown } from '../marks.ts'
import { globals, harmless, modifiers, named, options, sets, substitutes } from '../tables/vim.ts'
import type { Program, Shell } from '../types.ts'
import { expressionEnd, textEnd } from './expressions.ts'
import { has, readOptions, type Read } from './options.ts'

const table = {
  anywhere: true,
  // After `-e`, `-s` means silent and has no value. Without `-e`, the value of `-s` is a file of keys. The value of
  // `-V` can only be in the same word as `-V`.
  flags: 'abACdDeEfFgGhHlLmMnNoOpPrRsvVxXyYZ',
  values: 'ciqStTuUwW',
  long: 'cmd remote-expr remote-send servername startuptime log listen server gui-dialog-file socketid windowid role',
  longFlags:
    'clean noplugin not-a-term literal nofork version help headless embed remote remote-silent remote-wait remote-wait-silent remote-tab remote-tab-silent remote-tab-wait remote-tab-wait-silent remote-ui serverlist echo-wid api-info ttyfail',
}

const addresses = /(^|[\s=])(ftp|rcp|scp|https?|davs?|rsync|sftp|fetch):\/\//i

/**
 * Reads the arguments of vi and similar editors. The commands after `-c` and `+` are read too. A file of commands is
 * not read, so such a file counts as a script.
 */
export const vim: Program = (args, shell, call, name) => {
  const read = readOptions(args, table)
  for (const [option, value = ''] of read.options) {
    if (option === 'c' || /^cmd/i.test(option)) exCommands(value, shell)
    else if (runsFile(option, value)) shell.note('script', 'an editor runs a file or an expression')
  }
  for (const word of read.rest)
    if (word.startsWith('+')) exCommands(word.slice(1), shell)
    else opens(word, shell)
  if (read.unsure || has(read, 'V')) {
    // After an unknown option, any word may be a command.
    shell.note('script', 'an option of an editor is not known')
    for (const arg of args) exCommands(arg, shell)
  }
  const typed = linesFrom(read, name)
  if (has(read, 's') && first(read, 's') < typed) shell.note('script', 'an editor is given keys by a file')
  if (typed < Infinity && call.input !== undefined) exCommands(call.input, shell)
}

const runsFile = (option: string, value: string): boolean =>
  /^[Sl]$/.test(option) ||
  /^remote-(e|se)/i.test(option) ||
  (/^u$/i.test(option) && !/^(NONE|NORC|DEFAULTS)$/.test(value))

const first = (read: Read, letter: string): number => read.options.findIndex(([option]) => option === letter)

/**
 * Returns the index of the option `-e` or `-E`, Infinity if there is no such option, or -1 for `ex`. After this option,
 * `-s` means silent, and the editor reads commands from its input. `ex` always reads commands from its input.
 */
function linesFrom(read: Read, name: string): number {
  if (name === 'ex') return -1
  const found = read.options.findIndex(([option]) => /^[eE]$/.test(option))
  return found < 0 ? Infinity : found
}

/** Reads every command of a text. A bar (`|`) separates commands, unless a backslash precedes it. */
function exCommands(text: string, shell: Shell): void {
  for (const [command] of text.matchAll(/(?:\\.|[^\\|\n]|\\)+/g)) exCommand(command, shell)
}

/**
 * Judges one command. The command counts as a script if the tables do not list it, or if it can run a part of its text.
 */
function exCommand(command: string, shell: Shell): void {
  const { from, name, rest } = withoutPrefixes(command)
  if (name === '' && (rest === '' || rest.startsWith('"'))) {
    if (isUnknown(command.slice(from))) shell.note('script', "an editor's command is only known when it runs")
    return
  }
  opens(rest, shell)
  if (isHarmless(name, rest)) return
  shell.note('script', 'an editor runs a command')
  suspect(command, shell)
}

const word = /[a-zA-Z]+|>>?|<<?/y
const range = /[\s:\d.$%,;+\uFFF0\uFFF1-]+|'.|\\[/?&]/y

/**
 * Splits modifiers, line ranges and `g/pattern/` off a command. `name` is the name of the command after them, and
 * `rest` is the text after the name. `from` is the index after the last modifier or pattern.
 */
function withoutPrefixes(command: string): { from: number; name: string; rest: string } {
  for (let from = 0; ;) {
    let at = behindRange(command, from)
    word.lastIndex = at
    const name = word.exec(command)?.[0] ?? ''
    at += name.length
    const global = globals.has(name)
    if (!global && !modifiers.has(name)) return { from, name, rest: command.slice(at) }
    if (command[at] === '!') at += 1
    from = global ? behindPattern(command, at) : at
  }
}

/** Returns the index after the line ranges, marks and searches that stand before a command. */
function behindRange(command: string, from: number): number {
  let at = from
  for (let before = -1; before < at;) {
    before = at
    range.lastIndex = at
    at += range.exec(command)?.[0].length ?? 0
    if (/[/?]/.test(command[at] ?? '')) at = behindPattern(command, at)
  }
  return at
}

/**
 * Returns the index after a pattern between delimiters. For `\/` and similar, which repeat the last pattern, returns
 * the index after these two characters. An option of the editor decides whether brackets have a meaning in patterns. If
 * the end of the pattern depends on this option, the pattern is not skipped. The text of the pattern is then read as a
 * command that the tables do not list, and counts as a script.
 */
function behindPattern(command: string, from: number): number {
  let at = from
  while (command[at] === ' ' || command[at] === '\t') at += 1
  const delimiter = command[at] ?? ''
  if (delimiter === '\\') return Math.min(at + 2, command.length)
  const end = textEnd(command, at + 1, delimiter)
  return end === expressionEnd(command, at + 1, delimiter, true) ? Math.min(end + 1, command.length) : at
}

function isHarmless(name: string, rest: string): boolean {
  // If the text begins with an unknown part, this part may belong to the command's name.
  if (/^[\uFFF0\uFFF1]/.test(rest)) return false
  if (substitutes.has(name)) return isPlainSubstitute(rest.trimStart())
  if (sets.has(name)) return rest.trim().split(/\s+/).every(isPlainOption)
  if (named.has(name)) return /^(?!\s*inc)[\s\w-]*$/.test(rest)
  // `w! file` overwrites; `w !command` and `r!command` run a command.
  const operand = /^r(e|ea|ead)?$/.test(name) ? rest : rest.replace(/^!/, '')
  return harmless.has(name) && !/^\s*[!=]|`/.test(operand)
}

/**
 * Whether the text after the name of a command is `/pattern/text/flags`. Is false if `text` is an expression (`\=`).
 */
function isPlainSubstitute(rest: string): boolean {
  const delimiter = rest[0] ?? ''
  if (rest === '') return true
  if (/[\w\\"]/.test(delimiter) || rest.includes('\\=')) return false
  const end = textEnd(rest, textEnd(rest, 1, delimiter) + 1, delimiter)
  return /^[&cegiInp#lr]*\s*\d*\s*$/.test(rest.slice(end + 1))
}

function isPlainOption(text: string): boolean {
  const [, negated, name = ''] = /^(no|inv)?([a-z]*)(?:[?!&<]|[+^-]?[=:][^/!`$(]*)?$/.exec(text) ?? []
  return text === '' || options.has(name) || options.has(`${negated ?? ''}${name}`)
}

/**
 * Records the effect `egress` if the text contains an address, because the plugin netrw reads and writes files at
 * addresses.
 */
function opens(text: string, shell: Shell): void {
  if (addresses.test(text)) shell.note('egress', 'an editor opens an address')
}

/**
 * Searches a command for texts that it may run: after `!` and `:terminal`, and in quotes. Such a text counts as egress
 * if it sends data out.
 */
function suspect(command: string, shell: Shell): void {
  const codes = [
    /!(?:\s*!)*(.*)/s.exec(command)?.[1],
    /\bte(?:r[a-z]*)?\s+(.*)/s.exec(command)?.[1],
    ...[...command.matchAll(/"([^"]+)"|'([^']+)'/g)].map(([, double, single]) => double ?? single),
  ]
  for (const code of codes)
    if (code !== undefined && shell.attempt(() => shell.code(code)) === 'egress')
      shell.note('egress', 'an editor runs a command that sends data out')
}
