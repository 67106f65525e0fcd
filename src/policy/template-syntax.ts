import type { Json } from './types.ts'

/** What a `{{...}}` points at. `text` is the whole of it, braces included, for messages. */
export type Reference =
  | { readonly kind: 'input'; readonly name: string; readonly path: readonly string[]; readonly text: string }
  | {
      readonly kind: 'step'
      readonly stepId: string
      readonly path: readonly string[]
      readonly text: string
    }
  | { readonly kind: 'item' | 'uploaded_files'; readonly path: readonly string[]; readonly text: string }
  | { readonly kind: 'index' | 'today' | 'yesterday' | 'now'; readonly text: string }
  /** Not a form that templates have. */
  | { readonly kind: 'unknown'; readonly text: string }

/** Words that `{{word}}` already means; a step cannot be called so. */
export const reservedWords: ReadonlySet<string> = new Set([
  'input',
  'steps',
  'item',
  'index',
  'today',
  'yesterday',
  'now',
])

/** Text cut at its references; a text without any is one string. */
export type Part = string | Reference

/** Whether a text holds anything to resolve; cheap, for skipping constants. */
export function isTemplate(text: string): boolean {
  return text.includes('{{')
}

/** Cuts a text into literal text and references, in order. An opening `{{` that never closes is an unknown one. */
export function parseText(text: string): Part[] {
  const parts: Part[] = []
  let at = 0
  for (;;) {
    const open = text.indexOf('{{', at)
    if (open < 0) break
    if (open > at) parts.push(text.slice(at, open))
    const close = text.indexOf('}}', open + 2)
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

/** Every reference in the texts of a value, in lists and objects too; an object's keys are never templates. */
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

/** Whether the texts of a value open more references than `most`; counts no further. */
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
const next = /\.([^\s.[\]{}"']+)|\[(\d+)\]|\["([^"]*)"\]|\['([^']*)'\]/y

function parseReference(text: string): Reference {
  const expression = text.slice(2, -2).trim()
  const head = first.exec(expression)?.[0]
  if (head === undefined) return { kind: 'unknown', text }
  const path: string[] = []
  next.lastIndex = head.length
  while (next.lastIndex < expression.length) {
    const match = next.exec(expression)
    if (match === null) return { kind: 'unknown', text }
    path.push(match[1] ?? match[2] ?? match[3] ?? match[4] ?? '')
  }
  return classify(head, path, text)
}

function classify(head: string, path: readonly string[], text: string): Reference {
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
      if (name === undefined) return { kind: 'unknown', text }
      if (name === 'uploaded_files') return { kind: 'uploaded_files', path: rest, text }
      return { kind: 'input', name, path: rest, text }
    }
    case 'steps': {
      const [stepId, ...rest] = path
      return stepId === undefined ? { kind: 'unknown', text } : step(stepId, rest, text)
    }
    default:
      return step(head, path, text)
  }
}

/** `ID` and `ID.output` are the whole output; nothing else of a step can be read. */
function step(stepId: string, path: readonly string[], text: string): Reference {
  const [output, ...rest] = path
  if (output !== undefined && output !== 'output') return { kind: 'unknown', text }
  return { kind: 'step', stepId, path: rest, text }
}
