import { hash } from 'node:crypto'
import { configure } from 'safe-stable-stringify'

/** Sorts keys by UTF-16 units and writes numbers and texts like `JSON.stringify`, as RFC 8785 requires. */
const stringify = configure({ strict: true })

/**
 * Returns the RFC 8785 text of a JSON value. Throws for a value that JSON does not have. Examples: NaN, half a
 * surrogate pair, and `undefined` as the whole value.
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

/** Returns the SHA-256 hash of the text in UTF-8, as lower-case hex. */
export function sha256(text: string): string {
  return hash('sha256', text)
}

/**
 * Returns the hash of a JSON value for the audit log. This is the SHA-256 hash of the RFC 8785 text, as lower-case hex.
 */
export function hashOf(value: unknown): string {
  return sha256(canonicalJson(value))
}
