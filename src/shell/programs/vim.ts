import { isUnknown } from '../marks.ts'
import { globals, harmless, modifiers, named, options, sets, substitutes } from '../tables/vim.ts'
import type { Program, Shell } from '../types.ts'
import { expressionEnd, textEnd } from './expressions.ts'
import { has, readOptions, type Read } from './options.ts'

const table = {
  anywhere: true,
  // `-s` means silent after `-e`, else a file of keys. `-V` may have a value in the same word.
  flags: 'abACdDeEfFgGhHlLmMnNoOpPrRsvVxXyYZ',
  values: 'ciqStTuUwW',
  long: 'cmd remote-expr remote-send servername startuptime log listen server gui-dialog-file socketid windowid role',
  longFlags:
    'clean noplugin not-a-term literal nofork version help headless embed remote remote-silent remote-wait remote-wait-silent remote-tab remote-tab-silent remote-tab-wait remote-tab-wait-silent remote-ui serverlist echo-wid api-info ttyfail',
}

const addresses = /(^|[\s=])(ftp|rcp|scp|https?|davs?|rsync|sftp|fetch):\/\//i

/** vi and similar editors: the commands of `-c` and `+`; a file of commands is unread code. */
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
    // Then any word may be a command.
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
 * The index of the option after which `-s` means silent and the editor reads command lines. For ex, this always
 * holds.
 */
function linesFrom(read: Read, name: string): number {
  if (name === 'ex') return -1
  const found = read.options.findIndex(([option]) => /^[eE]$/.test(option))
  return found < 0 ? Infinity : found
}

/** Reads every command of a text. A bar separates commands, unless a backslash precedes it. */
function exCommands(text: string, shell: Shell): void {
  for (const [command] of text.matchAll(/(?:\\.|[^\\|\n]|\\)+/g)) exCommand(command, shell)
}

/** A command outside the tables, or a command with text that is run, is a script. */
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

/** The command after its modifiers, line ranges and `g/pattern/`, and the index at which those ranges begin. */
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

/** Steps over line ranges, marks and searches before a command. */
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
 * The index after a pattern between delimiters, or after `\/` and similar, which repeat the last pattern. An option
 * of the editor decides whether brackets have a meaning. If the end of the pattern depends on this option, the
 * pattern is not skipped, and the text there matches no command.
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
  // The unknown part may belong to the name.
  if (/^[\uFFF0\uFFF1]/.test(rest)) return false
  if (substitutes.has(name)) return isPlainSubstitute(rest.trimStart())
  if (sets.has(name)) return rest.trim().split(/\s+/).every(isPlainOption)
  if (named.has(name)) return /^(?!\s*inc)[\s\w-]*$/.test(rest)
  // `w! file` overwrites; `w !command` and `r!command` run a command.
  const operand = /^r(e|ea|ead)?$/.test(name) ? rest : rest.replace(/^!/, '')
  return harmless.has(name) && !/^\s*[!=]|`/.test(operand)
}

/** `/pattern/text/flags`, where the text is not an expression. */
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

/** netrw reads and writes files with an address. */
function opens(text: string, shell: Shell): void {
  if (addresses.test(text)) shell.note('egress', 'an editor opens an address')
}

/** Texts that an unknown command may run: after `!` and `:terminal`, and in quotes. */
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
