import { createHash } from 'node:crypto'
import canonicalize from 'canonicalize'

/** RFC 8785 text of a JSON value. Throws on what JSON cannot hold (NaN, undefined at the top). */
export function canonicalJson(value: unknown): string {
  const text = canonicalize(value)
  if (text === undefined) throw new TypeError('the value has no JSON form')
  return text
}

/** Lower-case hex SHA-256 of UTF-8 text. */
export function sha256(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex')
}

/** The hash of contract section 1: lower-case hex SHA-256 over the RFC 8785 form. */
export function hashOf(value: unknown): string {
  return sha256(canonicalJson(value))
}
