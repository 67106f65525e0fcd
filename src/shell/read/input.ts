import type { Command, Redirection } from 'unbash'
import { outputOf } from './output.ts'
import type { Source, State } from './state.ts'
import { expandWords, heredocText, textsOf } from './words.ts'

/** Returns the standard input of a command, or undefined if the text of the command does not show the input. */
export function inputOf(command: Command, source: Source | undefined, state: State): string | undefined {
  return redirected(command.redirects, state) ?? from(source, state)
}

function from(source: Source | undefined, state: State): string | undefined {
  if (source === undefined) return undefined
  const text = redirected(source.redirects, state)
  if (text !== undefined) return text
  if (source.before !== undefined) return printedBy(source.before, state)
  return from(source.outer, state)
}

function printedBy(command: Command, state: State): string | undefined {
  return outputOf(
    command,
    (words) => expandWords(words, state)[0] ?? [],
    (each) => redirected(each.redirects, state),
  )
}

/**
 * Returns the text of the last redirection of standard input. If `any` is true, takes the last input redirection of any
 * file descriptor. Returns undefined if there is no such redirection, or if its text is not known.
 */
export function redirected(redirects: readonly Redirection[], state: State, any = false): string | undefined {
  const last = redirects.findLast(({ operator, descriptor }) => {
    const standard =
      descriptor === undefined || (descriptor.type === 'FileDescriptor' && descriptor.value === 0)
    return (standard || any) && operator.startsWith('<')
  })
  if (last?.type === 'HereString') return last.target && textsOf(last.target, state)[0]
  if (last?.type === 'HereDoc') {
    const { parts, text } = last.body
    return parts === undefined ? text : heredocText(parts, state)
  }
  const part = last?.target?.parts?.find((each) => each.type === 'ProcessSubstitution')
  return part?.type === 'ProcessSubstitution' && part.script ? filePrinted(part.script, state) : undefined
}

/** The output of the command in `<(...)`, if it is known. */
export function filePrinted(script: Parameters<typeof outputOf>[0], state: State): string | undefined {
  return outputOf(script, (words) => expandWords(words, state)[0] ?? [])
}

/** The known outputs of all `<(...)` among a command's words. */
export function filesOf(command: Command, state: State): string[] {
  const words = command.suffix.flatMap((word) => (word.type === 'Word' ? (word.parts ?? []) : []))
  return words.flatMap((part) => {
    const text =
      part.type === 'ProcessSubstitution' && part.script ? filePrinted(part.script, state) : undefined
    return text === undefined ? [] : [text]
  })
}
