import type { Word } from 'unbash'
import { longestWord } from '../limits.ts'
import { isDynamic, output, unknown, withoutUnknowns } from '../marks.ts'
import type { Shell } from '../types.ts'
import { unread } from './collect.ts'
import { onlyPrinted, onlyVariable, runsWhenEvaluated } from './guards.ts'
import { filesOf, inputOf, isFed } from './input.ts'
import { type Body, type FunctionBody, type Site, spend, type State } from './state.ts'
import { assignedValues, expandWords, textsOf } from './words.ts'

export function evaluate(body: Body, state: State): void {
  const { shell } = state
  const growing = new Set<string>()
  for (const { name, values, grows } of body.bound) {
    const judged = new Set<string>()
    if (grows) growing.add(name)
    for (const value of values()) {
      spend(state, value.length + 1)
      for (const text of value) guarded(text, state)
      grow(name, value.join(''), state)
      const [first = ''] = value
      // A loop can have thousands of words, but few different ones.
      if (judged.has(first)) continue
      judged.add(first)
      spend(state, 3)
      shell.environment(name, first)
    }
  }
  for (const name of growing) {
    const text = state.grown.get(name) ?? ''
    spend(state, text.length / 64)
    guarded(text, state)
  }
  for (const texts of body.expressions) for (const text of texts()) guarded(text, state)
  for (const { word, writes } of body.targets) redirection(word, writes, state)
  for (const site of body.sites) command(site, state, shell)
}

/** Pieces of `+=` together can be code. A `]` without a `[` must not end a subscript of another piece. */
function grow(name: string, piece: string, state: State): void {
  const text = (state.grown.get(name) ?? '') + (piece.includes('[') ? piece : piece.replaceAll(']', ''))
  state.grown.set(name, text.length > longestWord ? text.slice(-longestWord) : text)
}

function command({ command, source }: Site, state: State, shell: Shell): void {
  if (command.name === undefined) return
  const { args } = command
  const words = [command.name, ...args.filter((arg) => arg.type === 'Word')]
  const input = inputOf(command, source, state)
  const fed = input === undefined ? isFed(command, source) : isDynamic(input)
  const call = { input, files: filesOf(command, state), fed }
  // The parser returns `x=...` of `alias` as an assignment. `collect` has already read that of `export`.
  const assigned = command.name.value === 'alias' ? args.filter((arg) => arg.type === 'Assignment') : []
  const texts = assigned.map(
    ({ name, value }) => `${name}=${assignedValues(value, state)[0]?.join(' ') ?? ''}`,
  )
  for (const reading of expandWords(words, state)) {
    spend(state, reading.length)
    // `. /dev/fd/9` runs a redirection of an unknown number, so the texts of all heredocs and `<<<` are read.
    const opens = state.texts.length > 0 && reading.some((word) => /^\/(dev|proc)\//.test(word))
    const files = opens ? [...call.files, ...state.texts.flatMap((text) => text() ?? [])] : call.files
    shell.run([...reading, ...texts], { ...call, files })
  }
}

/** bash may evaluate the text as an expression, as in `$((x))`, `declare -i x` or `[[ $x -eq 1 ]]`. */
function guarded(text: string, state: State): void {
  if (runsWhenEvaluated(text)) unread(text, state)
}

/** For a target such as `/dev/tcp/HOST/PORT`, bash itself connects, even if the command is harmless. */
function redirection(target: Word, writes: boolean, state: State): void {
  const made = onlyPrinted(target) || comesFromBuiltin(onlyVariable(target), state)
  for (const text of textsOf(target, state)) {
    if (writes) state.shell.writes(text)
    if ([text, withoutUnknowns(text)].some((each) => /^\/dev\/(tcp|udp)\//.test(each)))
      state.shell.note('egress', 'a redirection connects to another machine')
    else if (
      /^\/dev\/[\uFFF0\uFFF1]/.test(text) ||
      /^[\uFFF0\uFFF1]\/?(tcp|udp)\//.test(text) ||
      (made && (text === unknown || text === output))
    )
      state.shell.note('script', 'a redirection may connect to another machine')
  }
}

/** Whether the value comes from `printf -v`, `read` or a similar builtin, also by a copy: `read y; x=$y`. */
function comesFromBuiltin(name: string | undefined, state: State, steps = 4): boolean {
  if (name === undefined || steps === 0) return false
  return (state.definitions.get(name) ?? [])
    .slice(0, 20)
    .some(({ builtin, from }) => builtin === true || comesFromBuiltin(from, state, steps - 1))
}

/** A call inside the function is evaluated with its arguments, one in that with unknown ones for all deeper ones. */
export function callFunction(body: FunctionBody, args: readonly string[], state: State): void {
  if (body.active > 2) return
  for (const arg of args) guarded(arg, state)
  withArguments(body, body.active < 2 ? args : undefined, state)
}

/** As if they were called with unknown arguments. */
export function evaluateUncalled(state: State): void {
  // A body may define other functions.
  for (let found = true; found;) {
    found = false
    for (const body of [...state.functions.values()].flat()) {
      if (body.called) continue
      found = true
      withArguments(body, undefined, state)
    }
  }
}

function withArguments(body: FunctionBody, args: readonly string[] | undefined, state: State): void {
  const before = state.positional
  body.called = true
  body.active += 1
  state.positional = args
  evaluate(body, state)
  state.positional = before
  body.active -= 1
}
