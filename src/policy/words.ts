import { inOneLine } from './text.ts'

const mostListed = 5

export function quoteValue(given: string | number | boolean): string {
  const text = String(given)
  return quote(text.length > 80 ? `${text.slice(0, 79)}…` : text)
}

/** For a sentence: on one line and in backticks. */
export function quote(text: string): string {
  return `\`${inOneLine(text)}\``
}

/** For a sentence: "`a`, `b` or 2 more". */
export function list(items: readonly string[], word: 'and' | 'or', most = mostListed): string {
  const kept = items.slice(0, most)
  if (items.length > most) kept.push(`${items.length - most} more`)
  const last = kept.pop() ?? ''
  return kept.length === 0 ? last : `${kept.join(', ')} ${word} ${last}`
}
