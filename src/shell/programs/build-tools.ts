import type { Call, Program, Shell } from '../types.ts'
import { sendsInBuilds } from './environment.ts'
import { fed } from './interpreters.ts'

const byName = (names: string, program: Program): Record<string, Program> =>
  Object.fromEntries(names.split(' ').map((name) => [name, program]))

/** The functions that read the arguments of make and cmake, of concurrently, and of compilers. */
export const buildTools: Readonly<Record<string, Program>> = {
  // `make` with any target counts as harmless, because it is a build. It counts as a script if its arguments or its
  // input contain code for make, such as `--eval` or `$(shell ...)`.
  ...byName('make gmake', make),
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
  concurrently: (args, shell) => {
    for (const arg of args) if (!arg.startsWith('-')) shell.code(arg)
  },
  javac: (args, shell) => {
    if (args.some((arg) => /^-(processor|processorpath|-processor-path|Xplugin|J-javaagent)/.test(arg)))
      shell.note('script', '`javac` runs code while it compiles')
  },
  ...byName('gcc g++ clang clang++ cc', compiler),
}

/**
 * Reads arguments of make that contain code, and a makefile that the command itself contains. Builds often set
 * variables. So the value of a variable usually does not count. The value counts as code if make would run the value at
 * once, as in `x!=date`. The value counts as egress if it is a command that sends data out.
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
    if (how === '!=') {
      shell.note('script', '`make` is given code')
      shell.code(value)
    } else evaluatedByMake(value, shell)
    if (/\s/.test(value.trim())) sendsInBuilds(value, shell)
  }
}

/** Reads each `$(shell ...)` in a text that make evaluates. */
function evaluatedByMake(text: string, shell: Shell): void {
  for (const [, code = ''] of text.matchAll(/\$[({]shell\s+([^)}]*)/g)) {
    shell.note('script', '`make` is given code')
    shell.code(code)
  }
}

function compiler(args: readonly string[], shell: Shell, _: unknown, name: string): void {
  if (
    args.some((arg) =>
      /^(-fplugin|-fpass-plugin|-wrapper|-specs|--specs|-B[./]|-Xclang|-fuse-ld=.*\/|-Wl,.*-plugin)/.test(
        arg,
      ),
    )
  )
    shell.note('script', `\`${name}\` loads code`)
}
