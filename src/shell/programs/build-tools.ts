import { type Call, named, type Program, type Shell, when } from '../types.ts'
import { sendsInBuilds } from './environment.ts'
import { fed } from './interpreters.ts'
import { isTestOrBuild } from '../tables/tools.ts'
import { bySubcommand, starts } from './paths.ts'

function cmake(args: readonly string[], shell: Shell): void {
  if (args.some((arg) => arg.startsWith('-P'))) shell.note('script', '`cmake` runs a script')
  const at = args.indexOf('-E')
  const verb = args[at + 1] ?? ''
  if (at < 0 || !/^(env|time|chdir)$/.test(verb)) return
  const rest = args.slice(at + 2).filter((word, index) => index > 0 || verb !== 'chdir' || word === '')
  shell.run(rest.filter((word) => !/^(\w+=|--)/.test(word)))
}

/**
 * Any target counts as a harmless build. Code in the arguments or the input, such as `--eval`, makes it a script. Builds often set variables, so a value only counts as code if make runs it at once, as in `x!=date`, and as egress if
 * it is a command that sends data out.
 */
function make(args: readonly string[], shell: Shell, call: Call): void {
  const given = args.flatMap((arg, at) => [
    ...(/^--eval=(.*)$/s.exec(arg)?.slice(1) ?? []),
    ...(arg === '--eval' ? [args[at + 1] ?? ''] : []),
  ])
  const stdin = args.some(
    (arg, at) => /^(-f|--file|--makefile)$/.test(args[at - 1] ?? '') && /^(-|\/dev\/)/.test(arg),
  )
  if (stdin || args.some((arg) => /^(-f|--file=|--makefile=)(-|\/dev\/)/.test(arg)))
    given.push(...fed(call), ...(call.input === undefined && call.files.length === 0 ? [''] : []))
  for (const [at, arg] of args.entries())
    shell.script(
      /^(?:-f|--(?:make)?file=)(.+)$/s.exec(arg)?.[1] ??
        (/^(-f|--file|--makefile)$/.test(arg) ? args[at + 1] : undefined),
    )
  for (const text of given) {
    shell.note('script', '`make` is given code')
    for (const line of text.split('\n')) {
      const recipe = /^\t[@+-]*(.*)$/s.exec(line)?.[1] ?? /^[^#=]*?;(.*)$/s.exec(line)?.[1]
      if (recipe !== undefined) shell.code(recipe)
    }
    evaluatedByMake(text, shell)
  }
  for (const arg of args) {
    const [, name = '', how = '', value = ''] = /^([.\w]+)((?:[!?+]|::?:?)?=)(.*)$/s.exec(arg) ?? []
    if (how === '') continue
    if (/^(SHELL|\.SHELLFLAGS|MAKEFLAGS)$/.test(name)) shell.note('script', '`make` is given code')
    if (how === '!=') shell.runsText('`make` is given code', value)
    else evaluatedByMake(value, shell)
    if (/\s/.test(value.trim())) sendsInBuilds(value, shell)
  }
}

function evaluatedByMake(text: string, shell: Shell): void {
  for (const [, code = ''] of text.matchAll(/\$[({]shell\s+([^)}]*)/g))
    shell.runsText('`make` is given code', code)
}

const plugins = /^(-fplugin|-fpass-plugin|-wrapper|-specs|--specs|-B[./]|-Xclang|-fuse-ld=.*\/|-Wl,.*-plugin)/
const processors = /^-(processor|processorpath|-processor-path|Xplugin|J-javaagent)/

/* A task counts as a script, unless its name means a test or a build. */

const namedTasks: Program = (args, shell, _, name) => {
  if (args.some((arg) => /^(-l|--list|--summary|-T|--tasks|--version|--help|--dump|--show)$/.test(arg)))
    return
  judge(operands(args.filter((arg) => !arg.includes('='))), shell, name)
}

const operands = (args: readonly string[]): string[] => args.filter((arg) => !arg.startsWith('-'))

function judge(names: readonly string[], shell: Shell, name: string): void {
  if (names.length === 0 || !names.every((task) => isTestOrBuild(task)))
    shell.note('script', `\`${name}\` runs a task`)
}

/** With `--api`, turbo sends its results to a server. */
const turbo: Program = (args, shell, call, name) => {
  if (args.some((arg) => /^--api(=|$)/.test(arg))) shell.note('egress', '`turbo` sends results to a server')
  const tasks = args.filter((arg) => arg !== 'run')
  namedTasks(tasks, shell, call, name)
}

const rushx: Program = (args, shell, _, name) => {
  const [script] = operands(args)
  if (script !== undefined) judge([script], shell, name)
}

/** They run no target of a project. */
const ownOfNx =
  /^(graph|dep-graph|list|show|report|reset|format(:\w+)?|migrate|generate|g|add|init|connect|sync(:\w+)?|daemon|import|login|logout|repair|view-logs|mcp|watch|exec|release|help|completion|new|print-affected|affected:(graph|apps|libs))$/

/** `nx build app`, `nx run app:build`, `nx affected -t build test`. */
const nx: Program = (args, shell, call, name) => {
  bySubcommand(args, shell, call, name)
  if (args.some((arg) => arg.startsWith('--run-migrations'))) shell.note('script', '`nx` runs migrations')
  const [verb, ...rest] = args.slice(starts(args)[0] ?? args.length)
  if (verb === undefined || ownOfNx.test(verb)) return
  if (verb === 'run') judge([operands(rest)[0]?.split(':')[1] ?? ''], shell, name)
  else if (/^(run-many|affected)$/.test(verb)) judge(targets(rest), shell, name)
  else judge([verb.replace(/^affected:/, '')], shell, name)
}

/** The values of `-t` and `--targets`: one word or several, with or without commas. */
function targets(args: readonly string[]): string[] {
  let open = false
  return args.flatMap((arg) => {
    const value = /^(?:-t|--targets?)(?:=(.*))?$/s.exec(arg)
    open = value === null ? open && !arg.startsWith('-') : value[1] === undefined
    const list = value === null ? (open ? arg : '') : (value[1] ?? '')
    return list.split(',').filter((word) => word !== '')
  })
}

const moon: Program = (args, shell, _, name) => {
  const [verb = '', ...rest] = args.slice(starts(args)[0] ?? args.length)
  if (!/^(run|r|exec|x)$/.test(verb)) return
  const tasks = rest.slice(0, rest.includes('--') ? rest.indexOf('--') : rest.length)
  const names = operands(tasks).map((arg) => arg.split(':').at(-1) ?? '')
  judge(names, shell, name)
}

const concurrently: Program = (args, shell) => {
  for (const arg of operands(args)) shell.code(arg)
}

export const buildTools: readonly (readonly [string, Program])[] = [
  ...named('make gmake', make),
  ...named('cmake', cmake),
  ...named('concurrently', concurrently),
  ...named(
    'javac',
    when(processors, 'script', () => '`javac` runs code while it compiles'),
  ),
  ...named(
    'gcc g++ clang clang++ cc',
    when(plugins, 'script', (name) => `\`${name}\` loads code`),
  ),
  ...named('just task invoke inv fab rake grunt gulp npm-run-all run-s run-p mage', namedTasks),
  ...named('turbo', turbo),
  ...named('rushx', rushx),
  ...named('nx', nx),
  ...named('moon', moon),
]
