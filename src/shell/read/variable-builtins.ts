import type { Command } from 'unbash'
import { mostAlternatives } from '../limits.ts'
import { output, unknown } from '../marks.ts'
import { type OptionTable, optionsOfMapfile, optionsOfRead, readOptions } from '../programs/options.ts'
import { inputOf } from './input.ts'
import { printed } from './output.ts'
import { type Body, define, FunctionBody, type Source, spend, type State, type Value } from './state.ts'
import { separators, valuesOf } from './variables.ts'
import { expandWords } from './words.ts'

const options: Readonly<Record<string, OptionTable>> = {
  read: optionsOfRead,
  mapfile: optionsOfMapfile,
  readarray: optionsOfMapfile,
}

/** If a wrapper or a variable stands in place of the builtin's name, `programs/builtins.ts` defines them instead. */
export function defineByBuiltin(
  command: Command,
  source: Source | undefined,
  body: Body,
  state: State,
): void {
  const words = command.args.filter((arg) => arg.type === 'Word')
  const args = words.map(({ value }) => value)
  const bind = (name: string, values: () => readonly Value[], indexed = false): void =>
    define(state, body, name, { append: false, values, indexed, builtin: true })
  switch (command.name?.value) {
    case 'shift':
      state.shifts = true
      return
    case 'set': {
      const list = operandsOfSet(args)
      if (list !== undefined) bind('@', () => expandWords(words.slice(list), state))
      return
    }
    case 'read':
    case 'mapfile':
    case 'readarray':
      defineRead(command, args, source, state, bind)
      return
    case 'printf':
      if (args[0]?.startsWith('-v') === true) {
        const [name, from] = args[0] === '-v' ? [args[1] ?? '', 2] : [args[0].slice(2), 1]
        const [, base = name, index] = element.exec(name) ?? []
        bind(base, () => printfValues(words.slice(from), state), index !== undefined)
      }
      return
    case 'declare':
    case 'typeset':
    case 'local':
      if (args.some((arg) => /^-[a-zA-Z]*n/.test(arg))) defineReferences(command, body, state)
      // `local x` makes another variable without a value.
      for (const arg of args) if (/^\w+$/.test(arg)) bind(arg, () => [[]])
      return
    case 'unset':
      for (const arg of args) unsets(arg, state, bind)
      return
    case 'shopt':
      // It may become `nocasematch`. In `body`, BASHOPTS would count as a script (`runsCode`).
      if (words.some(({ value, text }) => value === 'nocasematch' || /[$`*?[{]/.test(text)))
        define(state, new FunctionBody(), 'BASHOPTS', {
          append: false,
          values: () => [[unknown]],
          builtin: true,
        })
      return
    case 'getopts':
      for (const name of [args[1] ?? '', 'OPTARG']) bind(name, () => [[unknown]])
      return
    default:
  }
}

type Bind = (name: string, values: () => readonly Value[], indexed?: boolean) => void

const element = /^(\w+)\[(.*)\]$/s

/** Where the operands begin, which become `$1`, `$2` and so on: after the options or `--`. */
function operandsOfSet(args: readonly string[]): number | undefined {
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? ''
    if (arg === '--' || arg === '-') return at + 1
    if (!/^[-+]/.test(arg)) return at
    if (/^[-+]\w*o$/.test(arg)) at += 1
  }
  return undefined
}

/** The elements of an array keep their indexes, but another may become the first. */
function unsets(arg: string, state: State, bind: Bind): void {
  const [, name] = element.exec(arg) ?? []
  if (name === undefined) {
    if (/^\w+$/.test(arg)) bind(arg, () => [[]])
    return
  }
  const before = (state.definitions.get(name) ?? []).filter(({ builtin }) => builtin !== true).slice(0, 4)
  const left = (): readonly Value[] => [
    ...before.flatMap(({ values }) =>
      values().flatMap((value) =>
        value.length > mostAlternatives ? [] : value.map((_, at) => value.slice(at + 1)),
      ),
    ),
    [unknown],
  ]
  bind(name, left, true)
}

/** In `declare -n a=b`, a becomes another name for b. */
function defineReferences(command: Command, body: Body, state: State): void {
  for (const arg of command.args) {
    if (arg.type !== 'Assignment' || arg.value.type !== 'Word') continue
    const target = arg.value.value
    define(state, body, arg.name, {
      append: false,
      values: () => (state.resolving.has(target) ? [] : valuesOf(target, state)),
    })
  }
}

function printfValues(words: Parameters<typeof expandWords>[0], state: State): string[][] {
  const readings = expandWords(words, state)
  return readings.map((reading) => {
    const text = printed(reading) ?? unknown
    spend(state, reading.length * 4 + text.length / 4)
    return [text]
  })
}

function defineRead(
  command: Command,
  args: readonly string[],
  source: Source | undefined,
  state: State,
  bind: Bind,
): void {
  const name = command.name?.value ?? ''
  const table = options[name] ?? {}
  const given = readOptions(args, table)
  const set = (...letters: string[]): boolean => given.options.some(([option]) => letters.includes(option))
  // It could be any option.
  const certain =
    !given.unsure && !set('n', 'N', 'd', 's', 'c', 'O', 'i', 'u') && !args.some((arg) => /[$`]/.test(arg))
  const lines = (): string[] | undefined => {
    const input = certain || name === 'read' ? inputOf(command, source, state) : undefined
    if (input === undefined) return undefined
    spend(state, input.length / 8)
    const escapes = name === 'read' && !set('r') && input.includes('\\')
    return certain && !escapes ? input.replace(/\n$/, '').split('\n') : undefined
  }
  if (name !== 'read') {
    const target = given.rest[0] ?? 'MAPFILE'
    return bind(target, () => [lines() ?? [output]])
  }
  const array = given.options.find(([option]) => option === 'a')?.[1]
  const names = array === undefined ? given.rest : [array]
  for (const [at, each] of (names.length > 0 ? names : ['REPLY']).entries()) {
    const [, base = each, index] = element.exec(each) ?? []
    const last = at + 1 >= names.length
    const values = (): readonly Value[] => {
      const ifs = separators(state)
      const known = lines()
      // Like the output of `$(...)`.
      if (known === undefined) return [[output]]
      const found = known.map((line) => line.trim()).filter((line) => line !== '')
      if (found.length === 0 || ifs === undefined) return [[unknown]]
      const lists = found.map((line) => line.split(ifs))
      // Such a separator at the ends of a line, or twice in a row, makes empty fields, so positions are uncertain.
      if (!isWhite(ifs)) return [...lists, ...lists.flat().map((field) => [field]), [unknown]]
      if (array !== undefined) return lists
      // The last variable gets the rest of the line. A loop reads every line in turn.
      return lists.map((fields) => [last ? fields.slice(at).join(' ') : (fields[at] ?? '')])
    }
    bind(base, values, index !== undefined)
  }
}

const isWhite = (ifs: RegExp): boolean => ifs.source === '[ \\t\\n]+'
