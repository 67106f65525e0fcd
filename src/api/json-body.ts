import type { IncomingMessage } from 'node:http'
import { turn } from '../governance/turns.ts'
import { deepestJson, inspectJson } from '../contract/json.ts'
import { headlineWithField, shownPath } from '../policy/issues.ts'
import { ApiError } from './errors.ts'
import { flawOf, hasMoreNames, sizeOf, type JsonFlaw } from './json-text.ts'

export const defaultBodyLimit = 1024 * 1024
/** Values of a body, on every route: each takes its time, in which the process answers nobody (docs/decisions/0066). */
export const mostValues = 100_000
/** Different names of fields in a body: an object of so many is read ten times as slowly as a list (docs/decisions/0066). */
export const mostNames = 10_000
/** Chunks, or what the network makes of a body. */
const mostPieces = 10_000
/** Reading more bytes than this takes long enough to wait for a turn. */
const smallBody = 64 * 1024

/**
 * The request's JSON body, or undefined when there is none. Never trusts a declared length.
 * Errors: 415 for any other content type or encoding, 413 over `limit` bytes, 400 for more than `most` values and for
 * what cannot be read as JSON in UTF-8 or holds what could not be stored or told apart later (see `parseJson`). `admit` is
 * waited for once all bytes are there, so that a slow connection holds up no other request.
 */
export async function readJsonBody(
  request: IncomingMessage,
  limit = defaultBodyLimit,
  most = mostValues,
  admit: (size: 'small' | 'large') => Promise<void> = async () => {},
): Promise<unknown> {
  const { 'content-type': type, 'content-encoding': encoding, 'content-length': length } = request.headers
  if (encoding !== undefined && encoding !== 'identity')
    throw new ApiError(
      'unsupported_media_type',
      `send the body without \`content-encoding: ${printable(encoding)}\``,
    )
  if (Number(length) > limit) throw tooLarge(limit)
  const bytes = await readBytes(request, limit)
  const isLarge = bytes.length > smallBody
  await admit(isLarge ? 'large' : 'small')
  if (bytes.length === 0) return undefined
  if (!isJsonType(type))
    throw new ApiError('unsupported_media_type', 'send the body as `content-type: application/json`')
  if (isLarge) await turn()
  return parseJson(bytes, most)
}

/**
 * Reads bytes as JSON. Throws 400 `bad_request`; values, levels and names are counted before anything is made of them, so that
 * a body that is refused costs little.
 */
export function parseJson(bytes: Uint8Array, most = mostValues): unknown {
  let text: string
  let value: unknown
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw notJson()
  }
  const size = sizeOf(text, most, deepestJson)
  if (size.values > most) throw tooMany(most, 'values')
  if (size.depth > deepestJson)
    throw new ApiError('bad_request', `the body is nested deeper than ${deepestJson} levels: make it flatter`)
  if (size.fields > mostNames && hasMoreNames(text, mostNames)) throw tooMany(mostNames, 'different names')
  try {
    value = JSON.parse(text)
  } catch {
    throw notJson()
  }
  const { issues, fields } = inspectJson(value, { most: 1 })
  const [issue] = issues
  if (issue !== undefined) throw badValue(issue.path, headlineWithField('the body cannot be kept', [issue]))
  // An object keeps one field of each name: fewer fields than were written means that some name is there twice.
  const flaw = fields === size.fields && !size.hasLongNumbers ? null : flawOf(text)
  if (flaw !== null) throw badValue(shownPath(flaw.path), wordsOf(flaw))
  return value
}

const tooMany = (most: number, what: string): ApiError =>
  new ApiError('bad_request', `the body has more than ${most} ${what}: send fewer`)

const notJson = (): ApiError => new ApiError('bad_request', 'the body is not JSON in UTF-8')

function wordsOf({ kind, path }: JsonFlaw): string {
  const place = `\`${shownPath(path).slice(0, 200)}\``
  if (kind === 'repeated') return `${place} is there more than once: give it once`
  return `${path.length === 0 ? 'a number' : place} is a whole number beyond ±${Number.MAX_SAFE_INTEGER}, which readers round differently: give it as a text`
}

function badValue(path: string, message: string): ApiError {
  return new ApiError('bad_request', message, [{ path, message }])
}

/**
 * The bytes as they come, in at most 10,000 pieces: a megabyte in chunks of one byte takes the parser of HTTP three seconds. They
 * are listened for one by one, as a loop over the stream would see several as one.
 */
function readBytes(request: IncomingMessage, limit: number): Promise<Buffer> {
  const pieces: Buffer[] = []
  let length = 0
  return new Promise((resolve, reject) => {
    const cutOff = (): void => reject(new ApiError('bad_request', 'the body ended before it was complete'))
    if (request.destroyed && !request.readableEnded) {
      cutOff()
      return
    }
    request.on('data', (piece: Buffer) => {
      length += piece.length
      pieces.push(piece)
      if (length > limit) reject(tooLarge(limit))
      else if (pieces.length > mostPieces)
        reject(
          new ApiError('too_large', `the body comes in more than ${mostPieces} pieces: send larger ones`),
        )
      else return
      // What still comes is thrown away.
      request.removeAllListeners('data').resume()
      pieces.length = 0
    })
    request.once('end', () => resolve(Buffer.concat(pieces)))
    request.once('error', cutOff)
    request.once('close', cutOff)
  })
}

/** `application/json`, alone or with `charset=utf-8`. */
function isJsonType(header: string | undefined): boolean {
  const [type, ...parameters] = (header ?? '').split(';').map((part) => part.trim().toLowerCase())
  if (type !== 'application/json') return false
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))
  return charset === undefined || /^charset="?utf-?8"?$/.test(charset)
}

const tooLarge = (limit: number): ApiError =>
  new ApiError('too_large', `the body is larger than ${limit} bytes: send less`)

const printable = (text: string): string => text.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 60)
