import { hash } from 'node:crypto'
import { configure } from 'safe-stable-stringify'

/** Sorts keys by UTF-16 units and writes numbers and texts like `JSON.stringify`, as RFC 8785 requires. */
const stringify = configure({ strict: true })

/**
 * The RFC 8785 text of a JSON value. Throws for values that JSON does not have: NaN, `undefined` as the whole value,
 * half a surrogate pair.
 */
export function canonicalJson(value: unknown): string {
  const text = stringify(value)
  if (text === undefined) throw new TypeError('the value has no JSON form')
  if (hasLoneSurrogate(text)) throw new TypeError('the value holds half of a surrogate pair')
  return text
}

/**
 * Finds `\ud…`, which `JSON.stringify` writes only for half of a surrogate pair. If the value itself contains the text
 * `\ud`, the JSON has two backslashes there.
 */
function hasLoneSurrogate(text: string): boolean {
  for (let at = text.indexOf('\\ud'); at >= 0; at = text.indexOf('\\ud', at + 1)) {
    let before = at
    while (text[before - 1] === '\\') before -= 1
    if ((at - before) % 2 === 0) return true
  }
  return false
}

/** Lower-case hex SHA-256 of the text in UTF-8. */
export function sha256(text: string): string {
  return hash('sha256', text)
}

/** The hash of a JSON value in the audit log: lower-case hex SHA-256 of its RFC 8785 text. */
export function hashOf(value: unknown): string {
  return sha256(canonicalJson(value))
}
