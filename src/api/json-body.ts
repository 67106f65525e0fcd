import type { IncomingMessage } from 'node:http'
import { nextTurn } from '../shared/time-slices.ts'
import { deepestJson, inspectJson } from '../contract/json.ts'
import { headlineWithField, shownPath } from '../policy/issues.ts'
import { arrived } from './body-bytes.ts'
import { ApiError } from './errors.ts'
import { syntaxErrorOf, flawOf, hasMoreNames, sizeOf, type JsonFlaw } from './json-text.ts'

export const defaultBodyLimit = 1024 * 1024
/** Bytes of a body with the inputs of a run. */
export const inputsBodyLimit = 8 * 1024 * 1024
/** Reading each value blocks the process for a moment (docs/decisions/0066). */
export const mostValues = 100_000
/** Different field names. An object with so many takes ten times as long to parse as a list (docs/decisions/0066). */
export const mostNames = 10_000
/** Bytes. A larger body waits in the queue of this thread before it is parsed. */
export const smallBody = 64 * 1024

/**
 * undefined for an empty body. Counts the bytes, because the declared length may be wrong. Awaits `admit` after all
 * have arrived, so that a slow connection does not delay other requests. Throws:
 * - 415 for another content type or encoding
 * - 413 for more than `limit` bytes
 * - 400 for more than `most` values, and for what `parseJson` refuses
 */
export async function readJsonBody(
  request: IncomingMessage,
  limit = defaultBodyLimit,
  most = mostValues,
  admit: (size: 'small' | 'large', worked: number) => Promise<void> = async () => {},
): Promise<unknown> {
  const { 'content-type': type, 'content-encoding': encoding, 'content-length': length } = request.headers
  if (encoding !== undefined && encoding !== 'identity')
    throw new ApiError(
      'unsupported_media_type',
      `send the body without \`content-encoding: ${printable(encoding)}\``,
    )
  if (Number(length) > limit) throw tooLarge(limit)
  const body = await arrived(
    request,
    (worked, bytes) => admit(bytes > smallBody ? 'large' : 'small', worked),
    { bytes: limit, tooLarge: () => tooLarge(limit) },
  )
  const bytes = body.whole()
  const isLarge = bytes.length > smallBody
  if (bytes.length === 0) return undefined
  if (!isJsonType(type))
    throw new ApiError('unsupported_media_type', 'send the body as `content-type: application/json`')
  if (isLarge) await nextTurn()
  return parseJson(bytes, most)
}

/**
 * Throws 400 if the body is not JSON, too large or deep, cannot be stored, or is ambiguous (`flawOf`). Values, levels
 * and names are counted first, so that a body with too many is refused quickly.
 */
export function parseJson(bytes: Uint8Array, most = mostValues): unknown {
  let text: string
  let value: unknown
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new ApiError('bad_request', 'the body is not UTF-8: send JSON in UTF-8')
  }
  const size = sizeOf(text, most, deepestJson)
  if (size.values > most) throw tooMany(most, 'values')
  if (size.depth > deepestJson)
    throw new ApiError('bad_request', `the body is nested deeper than ${deepestJson} levels: make it flatter`)
  if (size.fields > mostNames && hasMoreNames(text, mostNames)) throw tooMany(mostNames, 'different names')
  try {
    value = JSON.parse(text)
  } catch {
    throw notJson(text)
  }
  const { issues, fields } = inspectJson(value, { most: 1 })
  const [issue] = issues
  if (issue !== undefined) throw badValue(issue.path, headlineWithField('the body cannot be stored', [issue]))
  // A parsed object has each name once, so fewer fields than in the text mean a repeated one.
  const flaw = fields === size.fields && !size.hasLongNumbers ? null : flawOf(text)
  if (flaw !== null) throw badValue(shownPath(flaw.path), wordsOf(flaw))
  return value
}

const tooMany = (most: number, what: string): ApiError =>
  new ApiError('bad_request', `the body has more than ${most} ${what}: send fewer`)

/** The message shows no part of the body. */
function notJson(text: string): ApiError {
  const error = syntaxErrorOf(text)
  if (error === null) return new ApiError('bad_request', 'the body is not JSON')
  const { line, column, expected, isAtEnd } = error
  return new ApiError(
    'bad_request',
    `the body is not JSON: line ${line}, column ${column}: expected ${expected}${isAtEnd ? ', but the body ends' : ''}`,
  )
}

function wordsOf({ kind, path }: JsonFlaw): string {
  const place = `\`${shownPath(path).slice(0, 200)}\``
  if (kind === 'repeated') return `${place} is given more than once: give it once`
  return `${path.length === 0 ? 'a number' : place} is a whole number beyond ±${Number.MAX_SAFE_INTEGER}, which JSON readers round differently: give it as a text`
}

function badValue(path: string, message: string): ApiError {
  return new ApiError('bad_request', message, [{ path, message }])
}

/** A `charset` must be `utf-8`. Other parameters are ignored. */
function isJsonType(header: string | undefined): boolean {
  const [type, ...parameters] = (header ?? '').split(';').map((part) => part.trim().toLowerCase())
  if (type !== 'application/json') return false
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))
  return charset === undefined || /^charset="?utf-?8"?$/.test(charset)
}

const tooLarge = (limit: number): ApiError =>
  new ApiError('too_large', `the body is larger than ${limit} bytes: send less`)

const printable = (text: string): string => text.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 60)
