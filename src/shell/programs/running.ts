import { loads, runsValue } from '../tables/running.ts'
import type { Shell } from '../types.ts'

/** Pagers and the like that many set to have a text printed. */
const harmless = /^(cat|less|more|most|never|builtin|)(\s+-[\w-]+)*$/

/** What a program of `tables/running.ts` runs or loads by its options, whoever reads the rest of its arguments. */
export function readRunning(name: string, args: readonly string[], shell: Shell): void {
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

/** A long option with the word behind it, as if an equals sign stood between. */
const withValue = (arg: string, next: string | undefined): string =>
  /^--[\w-]+$/.test(arg) && next !== undefined ? `${arg}=${next}` : arg

function valuesRun(name: string, args: readonly string[]): string[] {
  const options = runsValue.get(name) ?? []
  const found = args.flatMap((arg, at) =>
    options.flatMap((option) => {
      const next = args[at + 1] ?? ''
      if (option.length > 1) {
        if (arg === `-${option}`) return [next]
        // A beginning of the name is enough for most.
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
  // What strace writes goes to a program behind a bar only, gdb's and lldb's commands to a shell behind these.
  if (name === 'strace') return found.flatMap((value) => /^[|!](.*)$/s.exec(value)?.[1] ?? [])
  if (name === 'gdb' || name === 'lldb')
    return found.flatMap((value) => /^\s*(?:!|shell\b|platform shell\b|pipe\b)(.*)$/s.exec(value)?.[1] ?? [])
  return found
}
