import { isUnknown } from '../marks.ts'
import { type Program, type Shell, list } from '../types.ts'
import { expressionEnd, textEnd } from './expressions.ts'
import { has, type Read, readOptions } from './options.ts'

/* Commands that run and read no code, as in vi's help: `w[rite]` is `w`, `wr` … `write`. Others are scripts. */

const abbreviated = (text: string): ReadonlySet<string> =>
  new Set(
    list(text).flatMap((entry) => {
      const [, short = '', rest = ''] = /^([^[]*)\[?([^\]]*)/.exec(entry) ?? []
      return Array.from({ length: rest.length + 1 }, (_, length) => short + rest.slice(0, length))
    }),
  )

const modifiers: ReadonlySet<string> = abbreviated(
  'sil[ent] uns[ilent] noa[utocmd] kee[pmarks] keepa[lt] keepj[umps] keepp[atterns] loc[kmarks] nosw[apfile] conf[irm] hid[e]',
)

/** Harmless, unless the argument begins with `!` (a program) or `=` (an expression), or contains a backtick. */
const harmless: ReadonlySet<string> = abbreviated(`
  q[uit] qa[ll] quita[ll] wq wqa[ll] x[it] xa[ll] exi[t] cq[uit] clo[se] on[ly]
  w[rite] wa[ll] up[date] sav[eas] r[ead] e[dit] ene[w] vie[w] f[ile] fin[d]
  n[ext] N[ext] p[rint] P[rint] prev[ious] fir[st] la[st] b[uffer] bn[ext] bp[revious] bd[elete] ls buffers files ar[gs]
  sp[lit] vs[plit] vne[w] tabe[dit] tabnew tabn[ext] tabp[revious] tabc[lose]
  diffu[pdate] diffo[ff] difft[his] diffs[plit]
  d[elete] y[ank] pu[t] m[ove] t co[py] j[oin] k ma[rk] nu[mber] l[ist] u[ndo] red[o] undoj[oin] ret[ab] sor[t]
  le[ft] ri[ght] ce[nter] noh[lsearch] star[tinsert] stopi[nsert] sl[eep] redr[aw] ve[rsion]
  reg[isters] mes[sages] h[elp] > < >> <<`)

/** Harmless with plain words: `syntax on`. A path or `include` loads a file of code. */
const named: ReadonlySet<string> = abbreviated('sy[ntax] filet[ype] colo[rscheme]')

/** Commands like `s/pattern/text/`. */
const substitutes: ReadonlySet<string> = abbreviated('s[ubstitute] sm[agic] sno[magic]')
/** Commands like `g/pattern/command`, which run another command. */
const globals: ReadonlySet<string> = abbreviated('g[lobal] v[global]')
const sets: ReadonlySet<string> = abbreviated('se[t] setl[ocal] setg[lobal]')

/** They name no program, file or expression. */
const options: ReadonlySet<string> = new Set(
  list(`
    nu number rnu relativenumber list wrap et expandtab ts tabstop sw shiftwidth sts softtabstop tw textwidth wm
    ai autoindent si smartindent ci copyindent cin cindent sr shiftround ff fileformat ffs fileformats fenc fileencoding
    fencs fileencodings enc encoding bomb eol endofline fixeol fixendofline bin binary ft filetype syn syntax
    ic ignorecase scs smartcase hls hlsearch is incsearch gd gdefault magic ro readonly ma modifiable swf swapfile
    bk backup wb writebackup udf undofile cp compatible more hid hidden ru ruler lz lazyredraw mouse bg background cul
    cursorline cc colorcolumn spell vb visualbell nf nrformats fo formatoptions js joinspaces ve so scrolloff
    tgc termguicolors title ls laststatus sc showcmd smd showmode ul undolevels ut updatetime tm timeoutlen aw autowrite ar
    autoread all fdm foldmethod fen foldenable cb clipboard`),
)

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

/** A script if the tables do not list the command, or if it can run a part of its text. */
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

/** Splits modifiers, line ranges and `g/pattern/` off. `from` is the index after the last modifier or pattern. */
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

/** The index after a pattern. If an option of the editor decides where it ends, it is read as an unlisted command. */
function behindPattern(command: string, from: number): number {
  let at = from
  while (command[at] === ' ' || command[at] === '\t') at += 1
  const delimiter = command[at] ?? ''
  if (delimiter === '\\') return Math.min(at + 2, command.length)
  const end = textEnd(command, at + 1, delimiter)
  return end === expressionEnd(command, at + 1, delimiter, true) ? Math.min(end + 1, command.length) : at
}

function isHarmless(name: string, rest: string): boolean {
  // An unknown part may belong to the command's name.
  if (/^[\uFFF0\uFFF1]/.test(rest)) return false
  if (substitutes.has(name)) return isPlainSubstitute(rest.trimStart())
  if (sets.has(name)) return rest.trim().split(/\s+/).every(isPlainOption)
  if (named.has(name)) return /^(?!\s*inc)[\s\w-]*$/.test(rest)
  // `w! file` overwrites; `w !command` and `r!command` run a command.
  const operand = /^r(e|ea|ead)?$/.test(name) ? rest : rest.replace(/^!/, '')
  return harmless.has(name) && !/^\s*[!=]|`/.test(operand)
}

/** `/pattern/text/flags`, where `text` is no expression (`\=`). */
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
