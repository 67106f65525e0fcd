import type { Json } from './types.ts'

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
      readonly path: readonly Segment[]
      readonly text: string
    }
  | {
      readonly kind: 'item'
      readonly path: readonly Segment[]
      readonly text: string
    }
  | {
      readonly kind: 'index' | 'today' | 'yesterday' | 'now'
      readonly text: string
    }
  /** Not a valid reference. */
  | { readonly kind: 'unknown'; readonly text: string }

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

export type Part = string | Reference

/** A quick test, so that texts without templates need not be parsed. */
export function isTemplate(text: string): boolean {
  return text.includes('{{')
}

/** A quoted text in braces stands for itself: `{{"{{"}}` is `{{`. */
const quoted = /\{\{\s*(?:"([^"]*)"|'([^']*)')\s*\}\}/y

/** A `{{` that never closes becomes an unknown reference. A literal piece may be empty. */
export function parseText(text: string): Part[] {
  const parts: Part[] = []
  let at = 0
  for (;;) {
    const open = text.indexOf('{{', at)
    if (open < 0) break
    if (open > at) parts.push(text.slice(at, open))
    quoted.lastIndex = open
    const literal = quoted.exec(text)
    if (literal !== null) {
      parts.push(literal[1] ?? literal[2] ?? '')
      at = quoted.lastIndex
      continue
    }
    const close = closeOf(text, open + 2)
    if (close < 0) {
      parts.push({ kind: 'unknown', text: text.slice(open, open + 60) })
      return parts
    }
    parts.push(parseReference(text.slice(open, close + 2)))
    at = close + 2
  }
  if (at < text.length || parts.length === 0) parts.push(text.slice(at))
  return parts
}

const quotedKey = /\[(?:"[^"]*"|'[^']*')\]/y

/** Or -1. A `}}` inside a quoted key, such as `["}}"]`, does not close the reference. Linear time. */
function closeOf(text: string, start: number): number {
  let close = text.indexOf('}}', start)
  for (let at = start; close >= 0;) {
    const bracket = text.slice(at, close).search(/\[["']/)
    if (bracket < 0) return close
    quotedKey.lastIndex = at + bracket
    at = quotedKey.test(text) ? quotedKey.lastIndex : at + bracket + 2
    if (at > close) close = text.indexOf('}}', at)
  }
  return close
}

/** Also in lists and objects. Names of fields are never templates: `{{` in them is refused at saving. */
export function references(value: Json): Reference[] {
  const found: Reference[] = []
  const visit = (each: Json): void => {
    if (typeof each === 'string') {
      if (isTemplate(each)) for (const part of parseText(each)) if (typeof part !== 'string') found.push(part)
    } else if (typeof each === 'object' && each !== null)
      for (const child of Object.values(each)) visit(child)
  }
  visit(value)
  return found
}

/** Stops counting once there are more. */
export function hasMoreReferences(value: Json, most: number): boolean {
  let found = 0
  const visit = (each: Json): void => {
    if (found > most) return
    if (typeof each === 'string')
      for (let at = each.indexOf('{{'); at >= 0 && found <= most; at = each.indexOf('{{', at + 2)) found += 1
    else if (typeof each === 'object' && each !== null) for (const child of Object.values(each)) visit(child)
  }
  visit(value)
  return found > most
}

const first = /^[^\s.[\]{}"']+/
const next = /\.([^\s.[\]{}"']+)|\[(\d+)\]|\["([^"]*)"\]|\['([^']*)'\]|(\[index\])/y

function parseReference(text: string): Reference {
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
  return classify(head, path, text)
}

function classify(head: string, path: readonly Segment[], text: string): Reference {
  switch (head) {
    case 'today':
    case 'yesterday':
    case 'now':
    case 'index':
      return path.length === 0 ? { kind: head, text } : { kind: 'unknown', text }
    case 'item':
      return { kind: 'item', path, text }
    case 'input': {
      const [name, ...rest] = path
      if (typeof name !== 'string') return { kind: 'unknown', text }
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

/** `ID` and `ID.output` both mean the whole output. A step has no other readable field. */
function step(stepId: string, path: readonly Segment[], text: string): Reference {
  const [output, ...rest] = path
  if (output !== undefined && output !== 'output') return { kind: 'unknown', text }
  return { kind: 'step', stepId, path: rest, text }
}

/** Null if the path has `[index]` and there is no item. */
export function pathAt(path: readonly Segment[], index: number | undefined): readonly string[] | null {
  if (index === undefined) return path.every((each) => typeof each === 'string') ? path : null
  return path.map((each) => (typeof each === 'string' ? each : String(index)))
}
