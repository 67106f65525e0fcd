import { isDynamic, isPlain, one, unknown } from '../marks.ts'
import { searched } from './environment.ts'
import { runsWhenEvaluated } from '../read/guards.ts'
import { scanForSenders } from '../scan.ts'
import { type Program, type Shell, when } from '../types.ts'
import { fed } from './interpreters.ts'
import { optionsOfMapfile, optionsOfRead, readOptions, valueOf } from './options.ts'

/** The name of a variable, perhaps with a subscript, for which the mark `one` can stand: `[1]` is a pattern too. */
const element = new RegExp(`^(\\w+)(\\[.*\\]|${one})?$`, 's')
const isCode = (text: string): boolean => /\$\(|`/.test(text)

/** Finds an argument in which bash runs code when a builtin evaluates it: `test -v 'a[$(id)]'`. */
function evaluated(args: readonly string[], shell: Shell): void {
  const text = args.find((arg) => runsWhenEvaluated(arg))
  if (text === undefined) return
  shell.note('script', 'a text is read again as an expression')
  const sender = scanForSenders(text)
  if (sender !== undefined) shell.note('egress', `\`${sender}\` sends data out`)
}

/** Also finds assignments that are visible only after quotes are removed: `export "x=y"`. */
const declares: Program = (args, shell) => {
  evaluated(args, shell)
  if (args.some((arg) => /^-[a-zA-Z]*n/.test(arg)))
    shell.note('script', 'a variable names the variable that is read')
  for (const arg of args) {
    const [, name, index = '', grows, value] = /^(\w+)(\[.*?\])?(\+?)=(.*)$/s.exec(arg) ?? []
    if (name !== undefined) {
      shell.environment(name, value ?? '')
      shell.sets(name + index, value)
      // Together with the earlier value, the text can become an expression.
      if (grows !== '' && value !== undefined && isCode(value))
        shell.note('script', 'a text is read again as an expression')
    } else if (/^[^-]/.test(arg) && isDynamic(arg) && (arg.split('=')[0] ?? '').match(/[\uFFF0\uFFF1]/))
      shell.note('script', 'it sets variables whose names are only known when it runs')
  }
}

/** Each variable gets a text that is read or built. Normal commands never set PATH so, and then it is a script. */
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
  compgen: completes,
  complete: completes,
  hash: when(/^-\w*p/, 'script', () => 'it changes what a name runs'),
  enable: when(/^-\w*f/, 'script', () => 'it loads code into the shell'),
  zmodload: (_, shell) => shell.note('script', 'it loads code into the shell'),
  autoload: (_, shell) => shell.note('script', 'it loads code into the shell'),
  bind: (_, shell) => shell.note('script', 'it makes keys run commands'),
  fc: (args, shell) => {
    if (!args.some((arg) => /^-\w*l/.test(arg))) shell.note('script', 'it runs an earlier command again')
  },
  let: (args, shell) => {
    const text = args.join(' ')
    evaluated([text], shell)
    if (!isCode(text)) return
    shell.runsText('a text is read again as an expression', `: ${/(?:\$\(|`).*/s.exec(text)?.[0] ?? ''}`)
  },
  test: evaluated,
  '[': evaluated,
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
  unset: evaluated,
  getopts: (args, shell) => assignsTo(args.slice(1, 2), shell),
  wait: (args, shell) => {
    evaluated(args, shell)
    const name = valueOf(readOptions(args, { options: '-fnp:' }), 'p')
    if (name !== undefined) assignsTo([name], shell)
  },
  // Patterns then ignore case. A definition of `BASHOPTS`, which commands cannot assign, records it.
  shopt: (args, shell) => {
    if (args.some((arg) => arg === 'nocasematch' || !isPlain(arg))) shell.sets('BASHOPTS')
  },
  printf: (args, shell) => {
    if (args[0] === '-v') assignsTo(args.slice(1, 2), shell)
    else if (args[0]?.startsWith('-v') === true) assignsTo([args[0].slice(2)], shell)
  },
  // zsh: `repeat 3 command`, and `zmv`, which evaluates its arguments
  repeat: (args, shell, call) => shell.run(args.slice(1), call),
  zmv: evaluated,
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
  const read = readOptions(args, { options: '-abcdefgjksuvDEIpro:A:G:W:F:C:X:P:S:V:' })
  const code = valueOf(read, 'C')
  if (code !== undefined) shell.code(code)
  // `complete` and `compgen` expand the value of `-W` like the words of a command, so substitutions in it run.
  const words = valueOf(read, 'W')
  if (words !== undefined && isCode(words)) shell.code(`: ${words}`)
  if (valueOf(read, 'F') !== undefined) shell.run([valueOf(read, 'F') ?? ''])
}
