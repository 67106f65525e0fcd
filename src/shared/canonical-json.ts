import { hash } from 'node:crypto'
import { configure } from 'safe-stable-stringify'

/** Sorts keys by UTF-16 units and writes numbers and texts like `JSON.stringify`, as RFC 8785 requires. */
const stringify = configure({ strict: true })

/** RFC 8785. Throws for what JSON does not have: NaN, half a surrogate pair, `undefined` as the whole value. */
export function canonicalJson(value: unknown): string {
  const text = stringify(value)
  if (text === undefined) throw new TypeError('the value has no JSON form')
  if (hasLoneSurrogate(text)) throw new TypeError('the value holds half of a surrogate pair')
  return text
}

/** `JSON.stringify` writes `\ud…` only for half a pair. For the text `\ud` itself, the JSON has two backslashes. */
function hasLoneSurrogate(text: string): boolean {
  for (let at = text.indexOf('\\ud'); at >= 0; at = text.indexOf('\\ud', at + 1)) {
    let before = at
    while (text[before - 1] === '\\') before -= 1
    if ((at - before) % 2 === 0) return true
  }
  return false
}

/** The text counts as UTF-8; lower-case hex. */
export function sha256(text: string): string {
  return hash('sha256', text)
}

/** For the audit log: SHA-256 of the RFC 8785 text. */
export function hashOf(value: unknown): string {
  return sha256(canonicalJson(value))
}
