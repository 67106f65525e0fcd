import { loads, runsValue } from '../tables/command-options.ts'
import type { Shell } from '../types.ts'

/** Pagers and similar programs that people often set to print a text. */
const harmless = /^(cat|less|more|most|never|builtin|)(\s+-[\w-]+)*$/

/**
 * Reads options with which a program of `tables/command-options.ts` runs or loads code. The program's other arguments
 * may have another reader.
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

/** A long option with its next word, as if joined by an equals sign. */
const withValue = (arg: string, next: string | undefined): string =>
  /^--[\w-]+$/.test(arg) && next !== undefined ? `${arg}=${next}` : arg

function valuesRun(name: string, args: readonly string[]): string[] {
  const options = runsValue.get(name) ?? []
  const found = args.flatMap((arg, at) =>
    options.flatMap((option) => {
      const next = args[at + 1] ?? ''
      if (option.length > 1) {
        if (arg === `-${option}`) return [next]
        // Most programs accept the beginning of the name.
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
  // strace pipes its output to a program only after `|` or `!`. gdb and lldb run shell commands only after these
  // words.
  if (name === 'strace') return found.flatMap((value) => /^[|!](.*)$/s.exec(value)?.[1] ?? [])
  if (name === 'gdb' || name === 'lldb')
    return found.flatMap((value) => /^\s*(?:!|shell\b|platform shell\b|pipe\b)(.*)$/s.exec(value)?.[1] ?? [])
  return found
}
