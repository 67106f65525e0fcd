import { mostAlternatives } from '../limits.ts'
import { isPlain, unknown } from '../marks.ts'
import { searched } from '../programs/environment.ts'
import { spend, type State, type Value } from './state.ts'

/** Variables that are set before the command. An unknown folder is `/` and then the mark `unknown`. */
const preset: Readonly<Record<string, string>> = {
  '0': 'bash',
  BASH: 'bash',
  SHELL: 'bash',
  IFS: ' ',
  HOME: `/${unknown}`,
  // Relative, because the command may have made programs there: a relative folder in `PATH` is a script.
  PWD: '.',
  OLDPWD: `/${unknown}`,
  TMPDIR: '/tmp',
}

/** All possible values, from all assignments in the command, else of `preset`, else the mark `unknown`. */
export function valuesOf(name: string, state: State): readonly Value[] {
  spend(state, 2)
  // Inside a function, or while another value is computed, the value can differ, so none is cached.
  const settled = state.resolving.size === 0 && state.positional === undefined && state.zero === undefined
  const known = settled ? state.values.get(name) : undefined
  if (known !== undefined) return known
  const values = assigned(name, state)
  if (settled) state.values.set(name, values)
  return values
}

function assigned(name: string, state: State): readonly Value[] {
  if (name === '0' && state.zero !== undefined) return [[state.zero]]
  if (/^[@*]$|^[1-9]\d*$/.test(name)) return positionals(name, state)
  const definitions = state.definitions.get(name) ?? []
  const usable = state.resolving.get(name) ?? definitions.length
  if (usable === 0) return [[preset[name] ?? unknown]]
  const values: Value[] = []
  const before = state.resolving.get(name)
  for (let at = 0; at < usable && values.length <= mostAlternatives; at += 1) {
    const definition = definitions[at]
    if (definition === undefined) break
    // Its value is then that of earlier assignments.
    state.resolving.set(name, at)
    const found = definition.values()
    if (!definition.append) values.push(...found)
    else values.push(...longer(values, found, definition.append))
  }
  if (before === undefined) state.resolving.delete(name)
  else state.resolving.set(name, before)
  if (before === undefined && definitions.length > 0) values.push(...otherwise(name, state))
  // A loop over no words, for example, keeps the earlier value, which is unknown.
  return values.length > mostAlternatives || values.length === 0 ? [[unknown]] : values
}

/**
 * The values where the command may not have set the variable: none if it sets it before each use; else that of
 * `preset`, or empty if the command may have set it, or the mark `unknown`.
 */
function otherwise(name: string, state: State): readonly Value[] {
  const unset = state.unset.get(name)
  if (unset === undefined) return []
  const known = preset[name]
  if (known !== undefined) return [[known]]
  const perhaps = unset === 'perhaps' || (unset === 'called' && state.scope.sure.has(name))
  return perhaps && !searched.has(name) ? [[]] : [[unknown]]
}

/** Whether an index sets or removes an element: the order may then differ from that in the text. */
export const isIndexed = (name: string, state: State): boolean =>
  state.definitions.get(name)?.some(({ indexed }) => indexed === true) === true

const different = (values: readonly Value[]): readonly Value[] =>
  values.length < 2 ? values : [...new Map(values.map((value) => [value.join('\0'), value])).values()]

/** An element not fully known can be several words or none, so later indexes are uncertain. `indexed`: any index. */
export function elementsAt(
  values: readonly Value[],
  at: number,
  indexed: boolean,
  state: State,
): readonly Value[] {
  for (const value of values) spend(state, value.length / 4)
  const all = different(values).flatMap((value) => {
    const loose = indexed ? 0 : value.findIndex((text) => !isPlain(text))
    const index = at < 0 ? value.length + at : at
    if (loose < 0 || (at >= 0 && loose > at)) return [[value[index] ?? '']]
    if (index === 0 && value.length === 1) return [value]
    const from = at < 0 ? 0 : loose
    const possible = value.length - from > mostAlternatives ? [] : value.slice(from)
    return [...possible, unknown].map((text) => [text])
  })
  return different(all)
}

/** `x+=text` appends to the text of the first element, and `a+=(b)` appends elements. */
function longer(values: readonly Value[], added: readonly Value[], how: 'text' | 'elements'): Value[] {
  const starts = values.length > 0 ? values : how === 'text' ? [['']] : [[]]
  const grown = (start: Value, more: Value): Value =>
    how === 'elements' ? [...start, ...more] : [(start[0] ?? '') + (more[0] ?? ''), ...start.slice(1)]
  return starts.flatMap((start) => added.map((more) => grown(start, more))).slice(0, mostAlternatives)
}

const limited = (values: readonly Value[]): readonly Value[] =>
  values.length > mostAlternatives ? [[unknown]] : values

function positionals(name: string, state: State): readonly Value[] {
  const set = state.definitions.get('@')?.flatMap((definition) => definition.values()) ?? []
  const known = state.positional === undefined ? set : [state.positional, ...set]
  if (known.length === 0) return [[unknown]]
  if (state.shifts && known.some((list) => list.length > mostAlternatives)) return [[unknown]]
  const lists = state.shifts ? known.flatMap((list) => list.map((_, at) => list.slice(at))) : known
  if (lists.length > mostAlternatives) return [[unknown]]
  if (name === '@' || name === '*') return lists
  return limited(elementsAt(lists, Number(name) - 1, false, state))
}

/** Stands between elements in `"$*"`: the first character of `IFS`, or the mark `unknown`. */
export function jointOf(state: State): string {
  if (!state.definitions.has('IFS')) return ' '
  const set = valuesOf('IFS', state).flat()
  const [only = ''] = set
  return set.every((each) => each.slice(0, 1) === only.slice(0, 1)) && isPlain(only)
    ? only.slice(0, 1)
    : unknown
}

/** White space and the characters of `IFS`; undefined if `IFS` is unknown. */
export function separators(state: State): RegExp | undefined {
  if (!state.definitions.has('IFS')) return white
  const set = valuesOf('IFS', state).flat()
  if (!set.every(isPlain)) return undefined
  const others = [...new Set(set.join('').replaceAll(/[ \t\n]/g, ''))].join('')
  return others === '' ? white : new RegExp(`[ \\t\\n${others.replaceAll(/[\\\]^-]/g, '\\$&')}]+`)
}
const white = /[ \t\n]+/
