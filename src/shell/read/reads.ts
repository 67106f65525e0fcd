import type { Command } from 'unbash'
import { unknown } from '../marks.ts'
import { inputOf } from './input.ts'
import { define, type Source, type State } from './state.ts'
import { separators, valuesOf } from './variables.ts'
import { expandWords } from './words.ts'

/** Options with a value of the builtins that set variables. */
const valued: Readonly<Record<string, RegExp>> = {
  read: /^-[a-zA-Z]*[dinNptu]$/,
  mapfile: /^-[a-zA-Z]*[dnOsuCc]$/,
  readarray: /^-[a-zA-Z]*[dnOsuCc]$/,
}

/** Notes the variables that a builtin sets by name: `read c`, `printf -v c`, `mapfile c`, `getopts`, `set -- a b`. */
export function defineByBuiltin(command: Command, source: Source | undefined, state: State): void {
  const words = command.args.filter((arg) => arg.type === 'Word')
  const args = words.map(({ value }) => value)
  switch (command.name?.value) {
    case 'shift':
      state.shifts = true
      return
    case 'set': {
      const list = args.indexOf('--')
      if (list < 0) return
      define(state, '@', { append: false, values: () => expandWords(words.slice(list + 1), state) })
      return
    }
    case 'read':
    case 'mapfile':
    case 'readarray':
      defineRead(command, args, source, state)
      return
    case 'printf':
      if (args[0]?.startsWith('-v') !== true) return
      {
        const [name, from] = args[0] === '-v' ? [args[1] ?? '', 2] : [args[0].slice(2), 1]
        define(state, name, { append: false, values: () => printfValues(words.slice(from), state) })
      }
      return
    case 'declare':
    case 'typeset':
    case 'local':
      if (args.some((arg) => /^-[a-zA-Z]*n/.test(arg))) defineReferences(command, state)
      return
    case 'getopts':
      define(state, args[1] ?? '', { append: false, values: () => [[unknown]] })
      return
    default:
  }
}

/** `declare -n a=b`: the one is the other. */
function defineReferences(command: Command, state: State): void {
  for (const arg of command.args) {
    if (arg.type !== 'Assignment' || arg.value.type !== 'Word') continue
    const target = arg.value.value
    define(state, arg.name, {
      append: false,
      values: () => (state.resolving.has(target) ? [] : valuesOf(target, state)),
    })
  }
}

function printfValues(words: Parameters<typeof expandWords>[0], state: State): string[][] {
  const [format = '', ...args] = expandWords(words, state)[0] ?? []
  if (/^%s(\\n)?$/.test(format)) return [[args.join('')]]
  return [[format.includes('%') || format.includes('\\') ? unknown : format]]
}

function defineRead(
  command: Command,
  args: readonly string[],
  source: Source | undefined,
  state: State,
): void {
  const name = command.name?.value ?? ''
  const names: string[] = []
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? ''
    if (valued[name]?.test(arg)) at += 1
    else if (!arg.startsWith('-')) names.push(arg)
  }
  const whole = names.length === 1
  const elements = name === 'read' && args.some((arg) => /^-[a-zA-Z]*a$/.test(arg))
  for (const [at, each] of names.entries()) {
    const values = (): string[][] => {
      const input = inputOf(command, source, state)
      if (input === undefined) return [[unknown]]
      const lines = input.split('\n').filter((line) => line.trim() !== '')
      if (name !== 'read') return [lines]
      if (elements) return lines.map((line) => line.trim().split(separators(state)))
      // A loop reads every line, one after another.
      return lines.map((line) => [whole ? line.trim() : (line.trim().split(separators(state))[at] ?? '')])
    }
    define(state, each, { append: false, values })
  }
}
