import type { Json } from './types.ts'
import { parseExpression } from './expressions/parse.ts'
import { ExpressionError, type Expression } from './expressions/syntax.ts'
import { parseReference, type Reference, type Roots } from './reference.ts'

/** What stands in `{{ … }}`. */
export type Template = Reference | Expression
export type Part = string | Template

/** A quick test, so that texts without templates need not be parsed. */
export function isTemplate(text: string): boolean {
  return text.includes('{{')
}

/** A quoted text in braces stands for itself: `{{"{{"}}` is `{{`. */
const quoted = /\{\{\s*(?:"([^"]*)"|'([^']*)')\s*\}\}/y

/** A `{{` that never closes, or whose content means nothing, becomes an unknown reference. A piece may be empty. */
export function parseText(text: string, roots?: Roots): Part[] {
  const parts: Part[] = []
  let at = 0
  for (;;) {
    const open = text.indexOf('{{', at)
    if (open < 0) break
    if (open > at) parts.push(text.slice(at, open))
    const { part, end } = parseTemplate(text, open, roots)
    parts.push(part)
    at = end
  }
  if (at < text.length || parts.length === 0) parts.push(text.slice(at))
  return parts
}

/** What is a reference is no expression: a field may have the name `a-b`. */
function parseTemplate(
  text: string,
  open: number,
  roots?: Roots,
): { readonly part: Part; readonly end: number } {
  quoted.lastIndex = open
  const literal = quoted.exec(text)
  if (literal !== null) return { part: literal[1] ?? literal[2] ?? '', end: quoted.lastIndex }
  const close = closeOf(text, open + 2)
  if (close >= 0) {
    const part = parseReference(text.slice(open, close + 2), roots)
    if (part.kind !== 'unknown') return { part, end: close + 2 }
  }
  try {
    const { expression, end } = parseExpression(text, open, roots)
    return { part: expression, end }
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error
    const end = close < 0 ? text.length : close + 2
    return {
      part: { kind: 'unknown', text: text.slice(open, Math.min(end, open + 60)), why: error.message },
      end,
    }
  }
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
export function templates(value: Json, roots?: Roots): Template[] {
  const found: Template[] = []
  const visit = (each: Json): void => {
    if (typeof each === 'string') {
      if (isTemplate(each))
        for (const part of parseText(each, roots)) if (typeof part !== 'string') found.push(part)
    } else if (typeof each === 'object' && each !== null)
      for (const child of Object.values(each)) visit(child)
  }
  visit(value)
  return found
}

/** Also those inside of expressions. */
export const references = (value: Json): Reference[] => templates(value).flatMap(referencesOf)

export const referencesOf = (template: Template): readonly Reference[] =>
  template.kind === 'expression' ? template.references : [template]

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
