import { isBuiltin, type Builtin } from './builtins.ts'

/** The part `[index]` of a path. It stands for the position of the current item of a `for_each`. */
export const placeOfItem = Symbol('[index]')

/** The name of a field, or a position in a list. */
export type Segment = string | typeof placeOfItem

/** `text` is the whole reference with braces, for messages. */
export type Reference =
  | {
      readonly kind: 'input'
      readonly name: string
      readonly path: readonly Segment[]
      readonly text: string
    }
  | {
      readonly kind: 'step'
      readonly stepId: string
      readonly of: 'output' | 'status' | 'approval'
      readonly path: readonly Segment[]
      readonly text: string
    }
  | {
      readonly kind: 'item'
      readonly path: readonly Segment[]
      readonly text: string
    }
  | {
      readonly kind: 'index' | Builtin
      readonly text: string
    }
  /** Neither a reference nor an expression. `why`: what is wrong with it as an expression. */
  | { readonly kind: 'unknown'; readonly text: string; readonly why?: string }

export type WithPath = Extract<Reference, { readonly path: readonly Segment[] }>

/** No step can have such an id. */
export const reservedWords: ReadonlySet<string> = new Set([
  'input',
  'steps',
  'item',
  'index',
  'today',
  'yesterday',
  'now',
])

/** Inputs and steps have such names. */
export const nameForm = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$/

const first = /^[^\s.[\]{}"']+/
const next = /\.([^\s.[\]{}"']+)|\[(\d+)\]|\["([^"]*)"\]|\['([^']*)'\]|(\[index\])/y

/** Names that stand for a whole value, in place of inputs and steps. */
export type Roots = ReadonlySet<string>

/** `text` has its braces. `unknown`: it is none, but may be an expression. */
export function parseReference(text: string, roots?: Roots): Reference {
  const expression = text.slice(2, -2).trim()
  const head = first.exec(expression)?.[0]
  if (head === undefined) return { kind: 'unknown', text }
  const path: Segment[] = []
  next.lastIndex = head.length
  while (next.lastIndex < expression.length) {
    const match = next.exec(expression)
    if (match === null) return { kind: 'unknown', text }
    path.push(match[5] === undefined ? (match[1] ?? match[2] ?? match[3] ?? match[4] ?? '') : placeOfItem)
  }
  return classify(head, path, text, roots)
}

/** With `roots`, `{{body.id}}` reads the input `body`, and there are neither steps nor declared inputs. */
export function classify(head: string, path: readonly Segment[], text: string, roots?: Roots): Reference {
  if (roots !== undefined)
    return roots.has(head) ? { kind: 'input', name: head, path, text } : { kind: 'unknown', text }
  const whole = path.every((each) => typeof each === 'string') ? [head, ...path].join('.') : head
  if (isBuiltin(whole)) return { kind: whole, text }
  switch (head) {
    case 'today':
    case 'yesterday':
    case 'now':
      return { kind: 'unknown', text }
    case 'index':
      return path.length === 0 ? { kind: head, text } : { kind: 'unknown', text }
    case 'item':
      return { kind: 'item', path, text }
    case 'input': {
      const [name, ...rest] = path
      if (typeof name !== 'string' || !nameForm.test(name)) return { kind: 'unknown', text }
      return { kind: 'input', name, path: rest, text }
    }
    case 'steps': {
      const [stepId, ...rest] = path
      return typeof stepId !== 'string' ? { kind: 'unknown', text } : step(stepId, rest, text)
    }
    default:
      return step(head, path, text)
  }
}

/** `ID` and `ID.output` both mean the whole output. */
function step(stepId: string, path: readonly Segment[], text: string): Reference {
  const [of = 'output', ...rest] = path
  const isReadable = of === 'output' || of === 'approval' || (of === 'status' && rest.length === 0)
  if (!nameForm.test(stepId) || !isReadable) return { kind: 'unknown', text }
  return { kind: 'step', stepId, of, path: rest, text }
}

/** Null if the path has `[index]` and there is no item. */
export function pathAt(path: readonly Segment[], index: number | undefined): readonly string[] | null {
  if (index === undefined) return path.every((each) => typeof each === 'string') ? path : null
  return path.map((each) => (typeof each === 'string' ? each : String(index)))
}

/** `{{item.a*2}}` is the field `a*2`, because a field may have any name. */
export const operatorHint = (segment: string): string =>
  /[-+*/%<>=!&|?]/.test(segment) ? ': in an expression, write blanks around an operator' : ''

/** The message names the reference and the reason. */
export class TemplateError extends Error {
  override readonly name: string = 'TemplateError'
}

/** A template whose path leads to nothing. */
export class MissingPath extends TemplateError {}
