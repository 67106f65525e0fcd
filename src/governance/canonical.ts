import { hash } from 'node:crypto'
import { configure } from 'safe-stable-stringify'

/** Sorts keys by their UTF-16 units and writes numbers and texts as `JSON.stringify` does: that is RFC 8785. */
const stringify = configure({ strict: true })

/** RFC 8785 text of a JSON value. Throws on what it cannot hold (NaN, undefined at the top, half of a surrogate pair). */
export function canonicalJson(value: unknown): string {
  const text = stringify(value)
  if (text === undefined) throw new TypeError('the value has no JSON form')
  if (hasLoneSurrogate(text)) throw new TypeError('the value holds half of a surrogate pair')
  return text
}

/** `JSON.stringify` escapes those alone; in front of a backslash of the text itself there is another one. */
function hasLoneSurrogate(text: string): boolean {
  for (let at = text.indexOf('\\ud'); at >= 0; at = text.indexOf('\\ud', at + 1)) {
    let before = at
    while (text[before - 1] === '\\') before -= 1
    if ((at - before) % 2 === 0) return true
  }
  return false
}

/** Lower-case hex SHA-256 of UTF-8 text. */
export function sha256(text: string): string {
  return hash('sha256', text)
}

/** The hash of contract section 1: lower-case hex SHA-256 over the RFC 8785 form. */
export function hashOf(value: unknown): string {
  return sha256(canonicalJson(value))
}
