import { isDynamic, isPlain, one, unknown } from '../marks.ts'
import { searched } from '../tables/environment.ts'
import { runsWhenEvaluated } from '../read/guards.ts'
import { scanForSenders } from '../scan.ts'
import type { Program, Shell } from '../types.ts'
import { fed } from './interpreters.ts'
import { optionsOfMapfile, optionsOfRead, readOptions, valueOf } from './options.ts'

/**
 * Matches the name of a variable, or a name with a subscript (`a[1]`). In place of an unquoted subscript there may be
 * the mark `one` (marks.ts), because `[1]` is also a pattern for one character.
 */
const element = new RegExp(`^(\\w+)(\\[.*\\]|${one})?$`, 's')
const isCode = (text: string): boolean => /\$\(|`/.test(text)

/** Finds an argument in which bash runs code when a builtin evaluates the argument. Example: `test -v 'a[$(id)]'`. */
function evaluated(args: readonly string[], shell: Shell): void {
  const text = args.find((arg) => runsWhenEvaluated(arg))
  if (text === undefined) return
  shell.note('script', 'a text is read again as an expression')
  const sender = scanForSenders(text)
  if (sender !== undefined) shell.note('egress', `\`${sender}\` sends data out`)
}

/**
 * Reads the arguments of `export`, `declare` and similar builtins. Finds assignments that are visible only after quotes
 * are removed: `export "x=y"`.
 */
const declares: Program = (args, shell) => {
  evaluated(args, shell)
  if (args.some((arg) => /^-[a-zA-Z]*n/.test(arg)))
    shell.note('script', 'a variable names the variable that is read')
  for (const arg of args) {
    const [, name, index = '', grows, value] = /^(\w+)(\[.*?\])?(\+?)=(.*)$/s.exec(arg) ?? []
    if (name !== undefined) {
      shell.environment(name, value ?? '')
      shell.sets(name + index, value)
      // `name+=text` appends. Together with the earlier value, the text can become an expression.
      if (grows !== '' && value !== undefined && isCode(value))
        shell.note('script', 'a text is read again as an expression')
    } else if (/^[^-]/.test(arg) && isDynamic(arg) && (arg.split('=')[0] ?? '').match(/[\uFFF0\uFFF1]/))
      shell.note('script', 'it sets variables whose names are only known when it runs')
  }
}

/**
 * Records that a builtin such as `read` sets these variables. The builtin gives each variable a text that it reads or
 * builds. Normal commands never set a search path such as PATH with such a builtin. So the command then counts as a
 * script.
 */
const assignsTo = (names: readonly string[], shell: Shell): void => {
  evaluated(names, shell)
  for (const text of names) {
    const [, name, index = ''] = element.exec(text) ?? []
    if (name === undefined) {
      if (isDynamic(text)) shell.note('script', 'it sets variables whose names are only known when it runs')
      continue
    }
    shell.environment(name, unknown)
    shell.sets(name + index)
    if (searched.has(name)) shell.note('script', 'it changes where programs are looked for')
  }
}

const program =
  (because: string): Program =>
  (_, shell) =>
    shell.note('script', because)

/** Builtins that run code, evaluate text again, or change the meaning of names. */
export const builtins: Readonly<Record<string, Program>> = {
  eval: (args, shell) => shell.code(args.join(' ')),
  trap: (args, shell) => {
    const [action = '', ...signals] = args[0] === '--' ? args.slice(1) : args
    if (signals.length > 0 && action !== '-') shell.code(action)
  },
  alias: (args, shell) => {
    for (const arg of args) if (arg.includes('=')) shell.code(arg.slice(arg.indexOf('=') + 1))
  },
  mapfile: (args, shell) => {
    const read = readOptions(args, optionsOfMapfile)
    const code = valueOf(read, 'C')
    if (code !== undefined) shell.code(code)
    assignsTo(read.rest.slice(0, 1), shell)
  },
  compgen: (args, shell) => completes(args, shell),
  complete: (args, shell) => completes(args, shell),
  hash: (args, shell) => {
    if (args.some((arg) => /^-\w*p/.test(arg))) shell.note('script', 'it changes what a name runs')
  },
  enable: (args, shell) => {
    if (args.some((arg) => /^-\w*f/.test(arg))) shell.note('script', 'it loads code into the shell')
  },
  zmodload: program('it loads code into the shell'),
  autoload: program('it loads code into the shell'),
  bind: program('it makes keys run commands'),
  fc: (args, shell) => {
    if (!args.some((arg) => /^-\w*l/.test(arg))) shell.note('script', 'it runs an earlier command again')
  },
  let: (args, shell) => {
    const text = args.join(' ')
    evaluated([text], shell)
    if (!isCode(text)) return
    shell.note('script', 'a text is read again as an expression')
    shell.code(`: ${/(?:\$\(|`).*/s.exec(text)?.[0] ?? ''}`)
  },
  test: (args, shell) => evaluated(args, shell),
  '[': (args, shell) => evaluated(args, shell),
  export: declares,
  declare: declares,
  typeset: declares,
  local: declares,
  readonly: declares,
  read: (args, shell) => {
    const read = readOptions(args, optionsOfRead)
    const array = valueOf(read, 'a')
    assignsTo([...read.rest, ...(array === undefined ? [] : [array])], shell)
  },
  unset: (args, shell) => evaluated(args, shell),
  getopts: (args, shell) => assignsTo(args.slice(1, 2), shell),
  wait: (args, shell) => {
    evaluated(args, shell)
    const name = valueOf(readOptions(args, { flags: 'fn', values: 'p' }), 'p')
    if (name !== undefined) assignsTo([name], shell)
  },
  // With the option `nocasematch`, patterns in `${x/a/b}` ignore case. A definition of `BASHOPTS` records that the
  // option may be set. Commands cannot assign `BASHOPTS`, so the definition has no other meaning.
  shopt: (args, shell) => {
    if (args.some((arg) => arg === 'nocasematch' || !isPlain(arg))) shell.sets('BASHOPTS')
  },
  printf: (args, shell) => {
    if (args[0] === '-v') assignsTo(args.slice(1, 2), shell)
    else if (args[0]?.startsWith('-v') === true) assignsTo([args[0].slice(2)], shell)
  },
  // zsh: `repeat 3 command`, and `zmv`, which evaluates its arguments
  repeat: (args, shell, call) => shell.run(args.slice(1), call),
  zmv: (args, shell) => evaluated(args, shell),
  // builtins and programs that let commands run later
  crontab: (args, shell, call) => {
    if (args.length > 0 && args.every((arg) => /^-[lrV]+$/.test(arg))) return
    shell.note('script', '`crontab` lets commands run later')
    for (const text of fed(call)) shell.code(text.replaceAll(/^\s*(?:\S+\s+){5}/gm, ''))
  },
  at: later,
  batch: later,
}

function later(args: readonly string[], shell: Shell, call: Parameters<Program>[2]): void {
  if (args.some((arg) => /^-[lrdcV]$/.test(arg))) return
  shell.note('script', 'it lets commands run later')
  for (const text of fed(call)) shell.code(text)
}

function completes(args: readonly string[], shell: Shell): void {
  const read = readOptions(args, { flags: 'abcdefgjksuvDEIpr', values: 'oAGWFCXPSV' })
  const code = valueOf(read, 'C')
  if (code !== undefined) shell.code(code)
  // `complete` and `compgen` expand the value of `-W` like the words of a command, so substitutions in it run.
  const words = valueOf(read, 'W')
  if (words !== undefined && isCode(words)) shell.code(`: ${words}`)
  if (valueOf(read, 'F') !== undefined) shell.run([valueOf(read, 'F') ?? ''])
}
