import type { Command, Redirection } from 'unbash'
import { outputOf } from './output.ts'
import type { Source, State } from './state.ts'
import { expandWords, heredocText, textsOf } from './words.ts'

/** Undefined if the text of the command does not show it. */
export function inputOf(command: Command, source: Source | undefined, state: State): string | undefined {
  return redirected(command.redirects, state) ?? from(source, state)
}

/** Whether standard input is a file, or what another command prints. */
export function isFed(command: Command, source: Source | undefined): boolean {
  for (let at = source; at !== undefined; at = at.outer)
    if (at.before !== undefined || reads(at.redirects)) return true
  return reads(command.redirects)
}

const reads = (redirects: readonly Redirection[]): boolean =>
  redirects.some((redirect) => /^<>?$/.test(redirect.operator) && redirectTarget(redirect) !== '/dev/null')

const redirectTarget = (redirect: Redirection): string | undefined =>
  redirect.type === 'Redirect' ? redirect.target?.text : undefined

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

/** The text of the last redirection of standard input, or with `any` of any descriptor; undefined if unknown. */
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

function filePrinted(script: Parameters<typeof outputOf>[0], state: State): string | undefined {
  return outputOf(script, (words) => expandWords(words, state)[0] ?? [])
}

export function filesOf(command: Command, state: State): string[] {
  const words = command.suffix.flatMap((word) => (word.type === 'Word' ? (word.parts ?? []) : []))
  return words.flatMap((part) => {
    const text =
      part.type === 'ProcessSubstitution' && part.script ? filePrinted(part.script, state) : undefined
    return text === undefined ? [] : [text]
  })
}
