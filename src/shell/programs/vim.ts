import { isUnknown } from '../marks.ts'
import type { Program, Shell } from '../types.ts'
import { textEnd } from './expressions.ts'
import { has, type Read, readOptions } from './options.ts'

/* An editor in a script usually substitutes, sets an option, writes and quits. Every other command is a script. */

const table = {
  anywhere: true,
  // After `-e`, `-s` means silent; otherwise its value is a file of keys. A value of `-V` is in the same word.
  options:
    '-abACdDeEfFgGhHlLmMnNoOpPrRsvVxXyYZc:i:q:S:t:T:u:U:w:W: cmd= remote-expr= remote-send= servername= startuptime= log= listen= server= gui-dialog-file= socketid= windowid= role= clean noplugin not-a-term literal nofork version help headless embed remote remote-silent remote-wait remote-wait-silent remote-tab remote-tab-silent remote-tab-wait remote-tab-wait-silent remote-ui serverlist echo-wid api-info ttyfail',
}

const addresses = /(^|[\s=])(ftp|rcp|scp|https?|davs?|rsync|sftp|fetch):\/\//i

/** Commands after `-c` and `+` are read. A file of commands is not, and counts as a script. */
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
    // Any word may then be a command.
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

/** The index of `-e` or `-E`, after which `-s` means silent and commands come from the input. In `ex` always. */
function linesFrom(read: Read, name: string): number {
  if (name === 'ex') return -1
  const found = read.options.findIndex(([option]) => /^[eE]$/.test(option))
  return found < 0 ? Infinity : found
}

/** A bar separates commands, unless a backslash precedes it. */
function exCommands(text: string, shell: Shell): void {
  for (const [command] of text.matchAll(/(?:\\.|[^\\|\n]|\\)+/g)) exCommand(command, shell)
}

/** Lines, marks and modifiers, then a name, then the rest. */
const parts = /^(?:[\s:\d.$%,;+-]|'.)*(?:(?:sil\w*|keep\w*|noa\w*|lockm\w*|conf\w*)!?\s+)*([a-zA-Z]*)(.*)$/s
/** By the beginnings that vi takes, without `!command` and expressions in the rest. */
const harmless =
  /^(q|qu|qui|quit|qa|qall|quita|quitall|wq|wqa|wqall|x|xi|xit|xa|xall|exit|cq|cquit|w|wr|write|wa|wall|up|update|sav|saveas|e|ed|edit|enew|r|re|read|view|n|next|N|p|print|prev|previous|b|bn|bp|ls|f|file|sp|split|vs|vsplit|tabe|tabedit|d|delete|y|yank|pu|put|m|move|t|co|copy|j|join|u|undo|red|redo|ret|retab|sor|sort|noh|nohlsearch|ve|version|reg|mes|h|help|se|set|setl|setlocal|sy|syn|syntax|filet|filetype|colo|colorscheme)$/
/** Options that name no program, file or expression. */
const quietOption =
  /^((no|inv)?(number|nu|relativenumber|rnu|list|wrap|expandtab|et|tabstop|ts|shiftwidth|sw|softtabstop|sts|textwidth|tw|autoindent|ai|smartindent|si|fileformats?|ffs?|fileencodings?|fencs?|encoding|enc|bomb|endofline|eol|fixendofline|fixeol|binary|bin|filetype|ft|syntax|syn|ignorecase|ic|smartcase|scs|hlsearch|hls|incsearch|is|gdefault|gd|magic|readonly|ro|modifiable|ma|swapfile|swf|backup|bk|writebackup|wb|undofile|udf|compatible|cp|more|hidden|hid|ruler|ru|mouse|background|bg|spell)(?:[?!&<]|[+^-]?[=:][^/!`$(]*)?)?$/

/** A script if it is not one of the harmless ones, or if it can run a part of its text. */
function exCommand(command: string, shell: Shell): void {
  const [, name = '', rest = ''] = parts.exec(command) ?? []
  if (name === '' && (rest === '' || rest.startsWith('"'))) {
    if (isUnknown(command)) shell.note('script', "an editor's command is only known when it runs")
    return
  }
  opens(rest, shell)
  if (isHarmless(name, rest)) return
  shell.note('script', 'an editor runs a command')
  suspect(command, shell)
}

function isHarmless(name: string, rest: string): boolean {
  if (/^[\uFFF0\uFFF1]/.test(rest)) return false
  if (/^s(u\w*)?$/.test(name)) return isPlainSubstitute(rest.trimStart())
  if (
    /^set?l?/.test(name) &&
    !rest
      .trim()
      .split(/\s+/)
      .every((each) => quietOption.test(each))
  )
    return false
  if (!harmless.test(name)) return false
  if (/^(sy|filet|colo)/.test(name)) return /^(?!\s*inc)[\s\w-]*$/.test(rest)
  // `w! file` overwrites; `w !command` and `r!command` run a command.
  const operand = /^r(e|ea|ead)?$/.test(name) ? rest : rest.replace(/^!/, '')
  return !/^\s*[!=]|`/.test(operand)
}

/** `/pattern/text/flags`, where `text` is no expression (`\=`). */
function isPlainSubstitute(rest: string): boolean {
  const delimiter = rest[0] ?? ''
  if (rest === '') return true
  if (/[\w\\"]/.test(delimiter) || rest.includes('\\=')) return false
  const end = textEnd(rest, textEnd(rest, 1, delimiter) + 1, delimiter)
  return /^[&cegiInp#lr]*\s*\d*\s*$/.test(rest.slice(end + 1))
}

/** The plugin netrw reads and writes files at addresses. */
function opens(text: string, shell: Shell): void {
  if (addresses.test(text)) shell.note('egress', 'an editor opens an address')
}

/** A command may run the text after `!` and `:terminal`, and in quotes. */
function suspect(command: string, shell: Shell): void {
  const codes = [
    /!(?:\s*!)*(.*)/s.exec(command)?.[1],
    /\bte(?:r[a-z]*)?\s+(.*)/s.exec(command)?.[1],
    ...[...command.matchAll(/"([^"]+)"|'([^']+)'/g)].map(([, double, single]) => double ?? single),
  ]
  for (const code of codes)
    if (code !== undefined)
      shell.suspects('an editor runs a command that sends data out', () => shell.code(code))
}
