import { isTestOrBuild } from '../tables/tools.ts'
import type { Program } from '../types.ts'

/** Programs of which one option or operand alone matters. */
export const others: Readonly<Record<string, Program>> = {
  // `make` of any target is a build (design.md section 5); what it is told to evaluate is not.
  make: (args, shell) => {
    if (args.some((arg) => /^(--eval|SHELL=|\.SHELLFLAGS=|MAKEFLAGS=)/.test(arg)))
      shell.note('script', '`make` is given code')
  },
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
    for (const arg of args) {
      const program = /^--compress-program=(.*)$/s.exec(arg)?.[1]
      if (program !== undefined && !/^(gzip|bzip2|xz|zstd|lz4|lzop)$/.test(program))
        shell.note('script', '`sort` runs a program')
    }
  },
  split: (args, shell) => {
    for (const [at, arg] of args.entries()) {
      const code = /^--filter=(.*)$/s.exec(arg)?.[1] ?? (arg === '--filter' ? args[at + 1] : undefined)
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
  // Whatever is opened runs with whichever program is set for it.
  'xdg-open': (args, shell) => {
    if (args.some((arg) => /^\w+:/.test(arg))) shell.note('script', 'it opens an address in another program')
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
    if (args.includes('netns') && at >= 0) shell.run(args.slice(at + 2), call)
  },
  perf: (args, shell, call) => {
    const at = args.indexOf('--')
    if (/^(stat|record|trace)$/.test(args[0] ?? ''))
      shell.run(at >= 0 ? args.slice(at + 1) : args.slice(1).filter((arg) => !arg.startsWith('-')), call)
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

function compiler(args: readonly string[], shell: Parameters<Program>[1], _: unknown, name: string): void {
  if (args.some((arg) => /^(-fplugin|-wrapper|-specs|--specs|-B\.|-Xclang)/.test(arg)))
    shell.note('script', `\`${name}\` loads code`)
}

function namedTasks(args: readonly string[], shell: Parameters<Program>[1], name: string): void {
  if (args.some((arg) => /^(-l|--list|--summary|-T|--tasks|--version|--help|--dump|--show)$/.test(arg)))
    return
  const names = args.filter((arg) => !arg.startsWith('-') && !arg.includes('='))
  if (names.length === 0 || !names.every((task) => isTestOrBuild(task)))
    shell.note('script', `\`${name}\` runs a task`)
}
