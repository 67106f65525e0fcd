import type { Json } from '../types.ts'

/** What a value is inside a longer text. */
export function asText(value: Json): string {
  if (value === null) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}
