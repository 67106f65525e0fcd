import { isPlain } from '../marks.ts'
import { readOptions } from './options.ts'
import { runner } from './packages.ts'
import { sendsByPath } from './paths.ts'
import { isToolFile, managesTests } from './project-tools.ts'
import { isTestOrBuild, testModules } from '../tables/tools.ts'
import { interpreters, runsFiles, scriptFile } from '../tables/interpreters.ts'
import type { Call, Program, Shell } from '../types.ts'

const prints = ['--version', '--help']

/** A script, unless it only prints the version or help, or checks the syntax. Known code is read as commands too. */
export const shellProgram: Program = (args, shell, call, name) => {
  if (args.length === 1 && prints.includes(args[0] ?? '')) return
  // `bash -n file` only checks the syntax.
  if (args[0] === '-n' && args.length === 2 && /^[^-]/.test(args[1] ?? '')) return
  shell.note('script', `\`${name}\` runs a script`)
  const at = codeArgument(args)
  if (at === undefined) shell.script(fileArgument(args))
  for (const [index, arg] of args.entries())
    if (/^--(rcfile|init-file)$/.test(arg)) shell.script(args[index + 1])
  if (at !== undefined) shell.code(args[at] ?? '', args.length > at + 1 ? args.slice(at + 1) : undefined)
  for (const text of fed(call)) shell.code(text)
}

/** The index of the text of `-c`: bundled (`-lc`), after (`-o pipefail -c`) or before (`-c -- text`) others. */
function codeArgument(args: readonly string[]): number | undefined {
  let wanted = false
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? ''
    if (/^--(rcfile|init-file)$/.test(arg)) at += 1
    else if (arg === '--command') wanted = true
    else if (/^--?$/.test(arg) || /^--\w/.test(arg)) continue
    else if (/^[-+]./.test(arg)) {
      if (arg.startsWith('-') && arg.includes('c')) wanted = true
      if (/[oO]$/.test(arg)) at += 1
    } else return wanted ? at : undefined
  }
  return undefined
}

/** The first argument that is neither an option nor the value of one. */
const fileArgument = (args: readonly string[]): string | undefined =>
  args.find(
    (arg, at) => !/^[-+]/.test(arg) && !/^(--(rcfile|init-file)|[-+]\w*[oO])$/.test(args[at - 1] ?? ''),
  )

export const fed = ({ input, files }: Call): string[] =>
  input === undefined ? [...files] : [input, ...files]

/** A script, unless the interpreter only prints its version, checks the syntax, tests or builds. */
export const interpreter: Program = (args, shell, call, name) => {
  if (args.length === 1 && interpreters.get(name)?.includes(args[0] ?? '') === true) return
  for (const file of filesRun(name, args)) shell.script(file)
  sendsByPath(shell, name, args)
  if (name === 'bun' && args[0] === 'x') return runner(args.slice(1), shell, call, name)
  if (name === 'bun' && args[0] === 'exec') shell.code(args.slice(1).join(' '))
  if (isHarmless(name, args, shell, call)) return
  shell.note('script', `\`${name}\` runs code`)
}

/** Options whose value is code that is loaded before the script. */
const loads = /^(?:-r|--require|--import|--loader|--experimental-loader)(?:=(.*))?$/s
const takesValue = (option: string): boolean => !option.includes('=') && loads.test(option)
/** Options whose value is code and no file: an operand is then data for it. */
const givesCode = /^(-\w*[eEc]|-[mp]|--(eval|print))$/

/** An unknown option may have a value: then the first one that is named like a script is the file. */
function filesRun(name: string, args: readonly string[]): (string | undefined)[] {
  const rest = (name === 'python' || name === 'pypy' ? afterOptions(args) : undefined) ?? args
  const loaded = rest.flatMap((arg, at) => {
    const load = loads.exec(arg)
    return load === null ? [] : [load[1] ?? rest[at + 1]]
  })
  if (rest.some((arg) => givesCode.test(arg))) return loaded
  const operands = rest.filter((arg, at) => !arg.startsWith('-') && !takesValue(rest[at - 1] ?? ''))
  if ((name === 'deno' || name === 'bun') && operands[0] === 'run') operands.shift()
  const first = runsFiles.has(name) ? operands[0] : undefined
  return [...loaded, first, operands.find((each) => scriptFile.test(each))]
}

function isHarmless(name: string, args: readonly string[], shell: Shell, call: Call): boolean {
  const [first = '', second = ''] = args
  if (name === 'python' || name === 'pypy') return python(args, shell, call)
  if (name === 'node' || name === 'nodejs')
    return first === '--test' || ((first === '--check' || first === '-c') && isPlain(second)) || node(args)
  if (name === 'pm2' || name === 'forever')
    return /^(list|ls|l|status|logs|describe|desc|show|info|jlist|prettylist|stop|delete|del|flush|save|ping|pid)$/.test(
      first,
    )
  if (sqlClients.test(name)) return onlyReadsSql(name, args, call)
  if (name === 'deno') return deno(args)
  if (name === 'bun') return bun(args)
  if (name === 'php')
    return first === '-l' || isToolFile(first) || (/^(\.\/)?artisan$/.test(first) && second === 'test')
  if (name === 'rails') return /^test(:\w+)?$/.test(first)
  return false
}

const sqlClients = /^(psql|mysql|mariadb|sqlite3?|duckdb)$/
const sqlOptions = {
  anywhere: true,
  options:
    '-AtqxXbenswNBEHh:U:u:d:D:p:P:F:R:c:e:S: host= username= user= dbname= database= port= command= execute= csv json quiet table batch readonly header column line no-psqlrc tuples-only',
}
const readsSql =
  /^\s*((select|explain|show|describe|desc|with|values)\b|\.(tables|schema|indexes|databases|headers|mode)\b|pragma\s+[\w.]+(\(\w+\))?\s*$)/i
/** Words and functions by which a database reads or writes a file, runs a program or asks another machine. */
const leavesDatabase =
  /[\\`|!]|\b(program|copy|into|attach|load|install|dblink\w*|https?|s3|\w*(load|read|write|file|import|export|extension|exec|shell|edit|query_to|scan)\w*)\b(?!_at\b)|\bfrom\s+'/i

/** Whether a database of this machine is only asked by statements that stand in the command. */
function onlyReadsSql(name: string, args: readonly string[], call: Call): boolean {
  const read = readOptions(args, sqlOptions)
  const hosts = read.options.flatMap(([name, value]) => (/^(h|host)$/.test(name) ? [value ?? ''] : []))
  const told = read.options.flatMap(([name, value]) =>
    /^(c|e|command|execute)$/.test(name) ? [value ?? ''] : [],
  )
  // Without a host, a variable such as `PGHOST` decides.
  const statements = [...told, ...read.rest.slice(1)]
    .flatMap((text) => text.split(';'))
    .filter((text) => text.trim() !== '')
  return (
    !read.unsure &&
    !call.fed &&
    call.input === undefined &&
    args.every(isPlain) &&
    !read.rest.some((word) => word.includes('://')) &&
    (/^(sqlite3?|duckdb)$/.test(name) || hosts.length > 0) &&
    hosts.every((host) => /^(localhost|127\.0\.0\.1|\/.*)$/.test(host)) &&
    statements.length > 0 &&
    statements.every((text) => readsSql.test(text) && !leavesDatabase.test(text))
  )
}

/** Values of `-W` that import no module. Python imports the module of a category with a dot. */
const warning = /^[a-z]+(:[^:]*(:\w*(:[\w.]*(:\d*)?)?)?)?$/
/** Values of `-X` that load no code. */
const setting =
  /^(dev|utf8|faulthandler|importtime|tracemalloc|frozen_modules|no_debug_ranges|int_max_str_digits|warn_default_encoding|cpu_count|gil|perf|perf_jit|showrefcount)(=\w+)?$/

/** The arguments of Python from `-m` or the script on; undefined if an earlier option is unknown or can load code. */
function afterOptions(args: readonly string[]): readonly string[] | undefined {
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? ''
    if (!arg.startsWith('-')) return args.slice(at)
    const [, letters = '', option = '', attached = ''] = /^-([bBdEIOPqRsSuvx]*)([mWX]?)(.*)$/s.exec(arg) ?? []
    if (option === 'm')
      return attached === '' ? ['-m', ...args.slice(at + 1)] : ['-m', attached, ...args.slice(at + 1)]
    if (option === '' && (letters === '' || attached !== '')) return undefined
    if (option === '') continue
    const value = attached === '' ? (args[(at += 1)] ?? '') : attached
    if (!isPlain(value) || !(option === 'W' ? warning : setting).test(value)) return undefined
  }
  return undefined
}

/** Whether Python only tests, builds or installs packages. A module named like a sender counts as egress. */
function python(args: readonly string[], shell: Shell, call: Call): boolean {
  const [first = '', ...rest] = afterOptions(args) ?? []
  if (/^(\.\/)?setup\.py$/.test(first)) return setup(rest, shell)
  if (first !== '-m') return managesTests(first, rest)
  const [module = ''] = rest
  shell.suspects('a Python module sends data out', () => shell.run(rest, call))
  return testModules.has(module) || testModules.has(module.split('.')[0] ?? '')
}

/** Whether `setup.py`, which runs every command in its arguments, only tests or builds. Some upload the package. */
function setup(args: readonly string[], shell: Shell): boolean {
  if (args.some((arg) => /^(upload|upload_docs|register)$/.test(arg)))
    shell.note('egress', '`setup.py` uploads a package')
  return (
    args.some((arg) => !arg.startsWith('-')) &&
    args.every((arg) =>
      /^(build|build_ext|build_py|build_clib|sdist|bdist|bdist_wheel|egg_info|test|check|clean|-[ifgqv]|--(inplace|force|debug|quiet|verbose|universal|all))$/.test(
        arg,
      ),
    )
  )
}

/** Whether node runs a test or build tool of the project, with options that load no code. */
function node(args: readonly string[]): boolean {
  const at = args.findIndex(
    (arg) =>
      !/^--(experimental-vm-modules|no-(warnings|deprecation|experimental-[\w-]+)|trace-(warnings|deprecation|uncaught)|max[-_]old[-_]space[-_]size=\d+|stack-trace-limit=\d+|expose-gc|enable-source-maps|unhandled-rejections=\w+)$/.test(
        arg,
      ),
  )
  return isToolFile(args[at] ?? '')
}

/** A name with a dot or a slash can be a file, because `bun run` also runs files. */
function runsTests([first = '', ...rest]: readonly string[], verb: string, flags: RegExp): boolean {
  const task = rest.find((arg) => !flags.test(arg)) ?? ''
  return first === verb && /^[\w:-]+$/.test(task) && isTestOrBuild(task)
}

function deno(args: readonly string[]): boolean {
  const [first = '', second = ''] = args
  if (first === 'task') return runsTests(args, 'task', /^(-q|--quiet)$/)
  return (
    /^(test|lint|fmt|check|bench|doc|info|cache|install|add|remove|outdated|upgrade|types|compile|completions|coverage|publish|deploy|clean|uninstall|help)$/.test(
      first,
    ) && isPlain(second)
  )
}

function bun(args: readonly string[]): boolean {
  if (args[0] === 'run') return runsTests(args, 'run', /^(-b|--(bun|silent|if-present))$/)
  return /^(test|build|install|i|add|remove|rm|update|outdated|link|unlink|pm|upgrade|audit|info|why|patch|publish|ci)$/.test(
    args[0] ?? '',
  )
}

/** Both builtins run the text of a file, of `<(...)` or of standard input. */
export const sourced: Program = (args, shell, call) => {
  shell.note('script', 'it runs a local script')
  shell.script(args[0] === '--' ? args[1] : args[0])
  for (const text of fed(call)) shell.code(text)
}
