import { isPlain } from '../marks.ts'
import { sendingPath } from './paths.ts'
import { testModules } from '../tables/tools.ts'
import { interpreters } from '../tables/interpreters.ts'
import type { Call, Program, Shell } from '../types.ts'

const prints = ['--version', '--help']

/**
 * Reads the arguments of a shell. A shell runs the text of `-c`, a file or its standard input. The command counts as a
 * script, unless it only prints the version or help, or checks the syntax. The text of `-c` and known input are read as
 * commands too.
 */
export const shellProgram: Program = (args, shell, call, name) => {
  if (args.length === 1 && prints.includes(args[0] ?? '')) return
  // `bash -n file` only checks the syntax.
  if (args[0] === '-n' && args.length === 2 && /^[^-]/.test(args[1] ?? '')) return
  shell.note('script', `\`${name}\` runs a script`)
  const at = codeArgument(args)
  if (at !== undefined) shell.code(args[at] ?? '', args.length > at + 1 ? args.slice(at + 1) : undefined)
  for (const text of fed(call)) shell.code(text)
}

/**
 * Returns the index of the text of `-c` in the arguments, or undefined if there is none. `-c` can be bundled with other
 * options (`-lc`). Other options can also stand before `-c` (`-o pipefail -c`) or after `-c` (`-c -- text`).
 */
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

export const fed = ({ input, files }: Call): string[] =>
  input === undefined ? [...files] : [input, ...files]

/**
 * Reads the arguments of an interpreter of another language than shell. The command counts as a script, unless the
 * interpreter only prints its version, checks the syntax, tests or builds.
 */
export const interpreter: Program = (args, shell, call, name) => {
  if (args.length === 1 && interpreters.get(name)?.includes(args[0] ?? '') === true) return
  const path = sendingPath(name, args)
  if (path !== undefined) shell.note('egress', `\`${name} ${path}\` sends data out`)
  if (isHarmless(name, args, shell, call)) return
  shell.note('script', `\`${name}\` runs code`)
}

function isHarmless(name: string, args: readonly string[], shell: Shell, call: Call): boolean {
  const [first = '', second = ''] = args
  if (name === 'python' || name === 'pypy') return pythonModule(args, shell, call)
  if (name === 'node' || name === 'nodejs')
    return first === '--test' || ((first === '--check' || first === '-c') && isPlain(second))
  if (name === 'deno') return deno(args)
  if (name === 'bun') return bun(first)
  if (name === 'php') return first === '-l'
  if (name === 'rails') return first === 'test'
  return false
}

/**
 * Returns whether `python -m MODULE` only tests, builds or installs packages. A module can have the name of a program
 * that sends data out, e.g. `httpie`. The command then counts as egress.
 */
function pythonModule(args: readonly string[], shell: Shell, call: Call): boolean {
  const at = args.findIndex((arg) => !/^-[bBdEiIOPqsSuvx]+$/.test(arg))
  const joined = /^-[bBdEIOPqsSuvx]*m(.*)$/.exec(args[at] ?? '')
  if (joined === null) return false
  const module = joined[1] === '' ? (args[at + 1] ?? '') : (joined[1] ?? '')
  const rest = args.slice(at + (joined[1] === '' ? 2 : 1))
  const sends = shell.attempt(() => shell.run([module, ...rest], call)) === 'egress'
  if (sends) shell.note('egress', 'a Python module sends data out')
  return testModules.has(module) || testModules.has(module.split('.')[0] ?? '')
}

function deno([first = '', second = '']: readonly string[]): boolean {
  if (first === 'task') return false
  return (
    /^(test|lint|fmt|check|bench|doc|info|cache|install|add|remove|outdated|upgrade|types|compile|completions|coverage|publish|deploy|clean|uninstall|help)$/.test(
      first,
    ) && isPlain(second)
  )
}

function bun(first: string): boolean {
  return /^(test|build|install|i|add|remove|rm|update|outdated|link|unlink|pm|upgrade|audit|info|why|patch|publish|ci)$/.test(
    first,
  )
}

/** Reads the input of `source` and `.`. Both builtins run the text of a file, of `<(...)` or of standard input. */
export const sourced: Program = (_, shell, call) => {
  shell.note('script', 'it runs a local script')
  for (const text of fed(call)) shell.code(text)
}
