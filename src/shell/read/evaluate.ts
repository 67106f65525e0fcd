import type { Word } from 'unbash'
import { withoutUnknowns } from '../marks.ts'
import type { Shell } from '../types.ts'
import { filesOf, inputOf } from './input.ts'
import { type Body, type FunctionBody, type Site, spend, type State } from './state.ts'
import { assignedValues, expandWords, textsOf } from './words.ts'

/** Reads what `collect` found in a piece of code: every command, assignment and redirection of it. */
export function evaluate(body: Body, state: State): void {
  const { shell } = state
  for (const { name, value } of body.assignments) {
    for (const [text = ''] of assignedValues(value, state)) shell.environment(name, text)
  }
  for (const target of body.targets) redirection(target, state)
  for (const site of body.sites) command(site, state, shell)
}

function command({ command, source }: Site, state: State, shell: Shell): void {
  if (command.name === undefined) return
  const { args } = command
  const words = [command.name, ...args.filter((arg) => arg.type === 'Word')]
  const call = { input: inputOf(command, source, state), files: filesOf(command, state) }
  // The parser takes `alias x=...` for an assignment, as it does after `export`; those have been looked at.
  const assigned = command.name.value === 'alias' ? args.filter((arg) => arg.type === 'Assignment') : []
  const texts = assigned.map(
    ({ name, value }) => `${name}=${assignedValues(value, state)[0]?.join(' ') ?? ''}`,
  )
  for (const reading of expandWords(words, state)) {
    spend(state, reading.length)
    // `. /dev/fd/9` reads what some redirection has put there.
    const opens = state.texts.length > 0 && reading.some((word) => /^\/(dev|proc)\//.test(word))
    const files = opens ? [...call.files, ...state.texts.flatMap((text) => text() ?? [])] : call.files
    shell.run([...reading, ...texts], { ...call, files })
  }
}

/** bash connects to a host when a redirection names it, whatever the command. */
function redirection(target: Word, state: State): void {
  for (const text of textsOf(target, state)) {
    if ([text, withoutUnknowns(text)].some((each) => /^\/dev\/(tcp|udp)\//.test(each)))
      state.shell.note('egress', 'a redirection connects to another machine')
    else if (/^\/dev\/[\uFFF0\uFFF1]/.test(text) || /^[\uFFF0\uFFF1]\/?(tcp|udp)\//.test(text))
      state.shell.note('script', 'a redirection may connect to another machine')
  }
}

/**
 * A function that is called: its body with the arguments of this call. When it calls itself, again with arguments that
 * nobody knows, which stand for those of every further call.
 */
export function callFunction(body: FunctionBody, args: readonly string[], state: State): void {
  if (body.active > 2) return
  withArguments(body, body.active < 2 ? args : undefined, state)
}

/** A function nobody was seen to call counts as called, with unknown arguments (design.md section 5). */
export function evaluateUncalled(state: State): void {
  // Reading one may define others.
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
