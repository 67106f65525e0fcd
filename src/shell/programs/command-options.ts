import { loads, runsValue } from '../tables/command-options.ts'
import type { Shell } from '../types.ts'

/** Harmless values, such as `less`. People often choose a pager or a similar program to print the output. */
const harmless = /^(cat|less|more|most|never|builtin|)(\s+-[\w-]+)*$/

/**
 * Reads the options with which a program runs or loads code (`tables/command-options.ts`). Another function may read
 * the program's other arguments.
 */
export function readCommandOptions(name: string, args: readonly string[], shell: Shell): void {
  for (const code of valuesRun(name, args)) {
    if (harmless.test(code.trim())) continue
    shell.note('script', `\`${name}\` is told which program to run`)
    shell.code(code)
  }
  const loading = Object.hasOwn(loads, name) ? loads[name] : undefined
  if (
    loading !== undefined &&
    args.some((arg, at) => loading.test(arg) || loading.test(withValue(arg, args[at + 1])))
  )
    shell.note('script', `\`${name}\` loads code`)
}

/** Joins a long option and the next word with an equals sign: `--name value` becomes `--name=value`. */
const withValue = (arg: string, next: string | undefined): string =>
  /^--[\w-]+$/.test(arg) && next !== undefined ? `${arg}=${next}` : arg

function valuesRun(name: string, args: readonly string[]): string[] {
  const options = runsValue.get(name) ?? []
  const found = args.flatMap((arg, at) =>
    options.flatMap((option) => {
      const next = args[at + 1] ?? ''
      if (option.length > 1) {
        if (arg === `-${option}`) return [next]
        // Most programs accept the beginning of a long option as its abbreviation.
        const [, name = '', value] = /^--([\w-]+)(?:=(.*))?$/s.exec(arg) ?? []
        return name === option || (name.length > 3 && option.startsWith(name)) ? [value ?? next] : []
      }
      const letters = /^-([A-Za-z]+)(.*)$/s.exec(arg)
      const place = letters?.[1]?.indexOf(option) ?? -1
      if (place < 0) return []
      const attached = arg.slice(place + 2)
      return [attached === '' ? next : attached]
    }),
  )
  // strace pipes its output to a program only if the value begins with `|` or `!`. gdb and lldb run shell commands only
  // after the words below. All other values are harmless.
  if (name === 'strace') return found.flatMap((value) => /^[|!](.*)$/s.exec(value)?.[1] ?? [])
  if (name === 'gdb' || name === 'lldb')
    return found.flatMap((value) => /^\s*(?:!|shell\b|platform shell\b|pipe\b)(.*)$/s.exec(value)?.[1] ?? [])
  return found
}
