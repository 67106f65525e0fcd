import { isTestOrBuild } from '../tables/tools.ts'
import type { Call, Program, Shell } from '../types.ts'
import { sendsInBuilds } from './environment.ts'
import { fed } from './interpreters.ts'

/** Programs of which one option or operand alone matters. */
export const others: Readonly<Record<string, Program>> = {
  // `make` of any target is a build (design.md section 5); what it is told to evaluate is not.
  make: (args, shell, call) => make(args, shell, call),
  gmake: (args, shell, call) => make(args, shell, call),
  cmake: (args, shell) => {
    if (args.some((arg) => arg.startsWith('-P'))) shell.note('script', '`cmake` runs a script')
    const at = args.indexOf('-E')
    if (at >= 0 && /^(env|time|chdir)$/.test(args[at + 1] ?? ''))
      shell.run(
        args
          .slice(at + 2)
          .filter((word, index) => index > 0 || args[at + 1] !== 'chdir' || word === '')
          .filter((word) => !/^(\w+=|--)/.test(word)),
      )
  },
  // `just`, `task`: named tasks that are not tests or builds
  just: (args, shell, _, name) => namedTasks(args, shell, name),
  task: (args, shell, _, name) => namedTasks(args, shell, name),
  invoke: (args, shell, _, name) => namedTasks(args, shell, name),
  inv: (args, shell, _, name) => namedTasks(args, shell, name),
  fab: (args, shell, _, name) => namedTasks(args, shell, name),
  rake: (args, shell, _, name) => namedTasks(args, shell, name),
  grunt: (args, shell, _, name) => namedTasks(args, shell, name),
  gulp: (args, shell, _, name) => namedTasks(args, shell, name),
  turbo: (args, shell, _, name) =>
    namedTasks(
      args.filter((arg) => arg !== 'run'),
      shell,
      name,
    ),
  'npm-run-all': (args, shell, _, name) => namedTasks(args, shell, name),
  'run-s': (args, shell, _, name) => namedTasks(args, shell, name),
  'run-p': (args, shell, _, name) => namedTasks(args, shell, name),
  concurrently: (args, shell) => {
    for (const arg of args) if (!arg.startsWith('-')) shell.code(arg)
  },
  pee: (args, shell) => {
    for (const arg of args) shell.code(arg)
  },
  cpio: (args, shell) => {
    if (args.some((arg) => arg.startsWith('--rsh-command')))
      shell.note('script', '`cpio` is told which program to run')
  },
  zip: (args, shell) => {
    for (const [at, arg] of args.entries()) {
      const code =
        /^--unzip-command=(.*)$/s.exec(arg)?.[1] ??
        (/^-TT$|^--unzip-command$/.test(arg) ? args[at + 1] : undefined)
      if (code === undefined) continue
      shell.note('script', '`zip` runs a command')
      shell.code(code)
    }
  },
  sort: (args, shell) => {
    for (const [at, arg] of args.entries()) {
      const [all, value] = /^--comp[a-z-]*(?:=(.*))?$/s.exec(arg) ?? []
      const program = all === undefined ? undefined : (value ?? args[at + 1])
      if (program !== undefined && !/^(gzip|bzip2|xz|zstd|lz4|lzop)$/.test(program))
        shell.note('script', '`sort` runs a program')
    }
  },
  split: (args, shell) => {
    for (const [at, arg] of args.entries()) {
      const code =
        /^--fi[a-z]*=(.*)$/s.exec(arg)?.[1] ?? (/^--fi[a-z]*$/.test(arg) ? args[at + 1] : undefined)
      if (code !== undefined) shell.code(code)
    }
  },
  javac: (args, shell) => {
    if (args.some((arg) => /^-(processor|processorpath|-processor-path|Xplugin|J-javaagent)/.test(arg)))
      shell.note('script', '`javac` runs code while it compiles')
  },
  gcc: compiler,
  'g++': compiler,
  clang: compiler,
  'clang++': compiler,
  cc: compiler,
  ffmpeg: (args, shell) => {
    if (args.some((arg) => /^(https?|rtmps?|rtsp|srt|tcp|udp|ftp|sftp|icecast|gopher):/.test(arg)))
      shell.note('egress', '`ffmpeg` connects to another machine')
  },
  watchexec: (args, shell) => {
    const at = args.findIndex(
      (arg, index) =>
        !arg.startsWith('-') &&
        !/^-(w|e|i|f|d|s|-watch|-exts|-ignore|-filter|-debounce|-signal)$/.test(args[index - 1] ?? ''),
    )
    if (at >= 0) shell.code(args.slice(at).join(' '))
  },
  ip: (args, shell, call) => {
    const at = args.indexOf('exec')
    if ((args.includes('netns') || args.includes('vrf')) && at >= 0) shell.run(args.slice(at + 2), call)
  },
  perf: (args, shell, call) => {
    const at = args.indexOf('--')
    if (!/^(stat|record|trace|bench)$/.test(args[0] ?? '')) return
    if (at < 0) suspectSenders(args.slice(1), shell)
    shell.run(at >= 0 ? args.slice(at + 1) : args.slice(1).filter((arg) => !arg.startsWith('-')), call)
  },
  jobs: (args, shell, call) => {
    const at = args.indexOf('-x')
    if (at >= 0) shell.run(args.slice(at + 1), call)
  },
  // `vercel` alone deploys
  vercel: (args, shell) => {
    if (
      args.every((arg) => arg.startsWith('-') && arg !== '--version' && arg !== '--help') ||
      /^(deploy|\.)$/.test(args[0] ?? '')
    )
      shell.note('egress', '`vercel` deploys')
  },
}

/**
 * A makefile that the command itself holds, and code among the arguments. Variables are what builds are made of; one is code
 * where make would run it at once, or where it is a command that sends.
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
    if (how === '!=') {
      shell.note('script', '`make` is given code')
      shell.code(value)
    } else evaluatedByMake(value, shell)
    if (/\s/.test(value.trim())) sendsInBuilds(value, shell)
  }
}

/** `$(shell ...)` in a text of make's. */
function evaluatedByMake(text: string, shell: Shell): void {
  for (const [, code = ''] of text.matchAll(/\$[({]shell\s+([^)}]*)/g)) {
    shell.note('script', '`make` is given code')
    shell.code(code)
  }
}

/** Some word may be the first of a command. */
function suspectSenders(args: readonly string[], shell: Shell): void {
  if (args.slice(0, 12).some((_, at) => shell.attempt(() => shell.run(args.slice(at))) === 'egress'))
    shell.note('egress', 'it starts a program that sends data out')
}

function compiler(args: readonly string[], shell: Parameters<Program>[1], _: unknown, name: string): void {
  if (
    args.some((arg) =>
      /^(-fplugin|-fpass-plugin|-wrapper|-specs|--specs|-B[./]|-Xclang|-fuse-ld=.*\/|-Wl,.*-plugin)/.test(
        arg,
      ),
    )
  )
    shell.note('script', `\`${name}\` loads code`)
}

function namedTasks(args: readonly string[], shell: Parameters<Program>[1], name: string): void {
  if (args.some((arg) => /^(-l|--list|--summary|-T|--tasks|--version|--help|--dump|--show)$/.test(arg)))
    return
  const names = args.filter((arg) => !arg.startsWith('-') && !arg.includes('='))
  if (names.length === 0 || !names.every((task) => isTestOrBuild(task)))
    shell.note('script', `\`${name}\` runs a task`)
}
