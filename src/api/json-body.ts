import type { IncomingMessage } from 'node:http'
import { turn } from '../governance/turns.ts'
import { ApiError } from './errors.ts'
import { flawOf, hasMoreValues, type JsonFlaw } from './json-text.ts'

export const defaultBodyLimit = 1024 * 1024
const maxDepth = 64
/** Reading more bytes than this takes long enough to wait for a turn. */
const smallBody = 64 * 1024
/** Keys with which an object could be taken for something else by code that is not careful. */
const unsafeKeys = new Set(['__proto__', 'constructor', 'prototype'])

/**
 * The request's JSON body, or undefined when there is none. Never trusts a declared length.
 * Errors: 415 for any other content type or encoding, 413 over `limit` bytes, 400 for more than `mostValues` values and for
 * what cannot be read as JSON in UTF-8 or holds what could not be stored or told apart later (see `checkJson`).
 */
export async function readJsonBody(
  request: IncomingMessage,
  limit = defaultBodyLimit,
  mostValues = Infinity,
): Promise<unknown> {
  const { 'content-type': type, 'content-encoding': encoding, 'content-length': length } = request.headers
  if (encoding !== undefined && encoding !== 'identity')
    throw new ApiError(
      'unsupported_media_type',
      `send the body without \`content-encoding: ${printable(encoding)}\``,
    )
  if (Number(length) > limit) throw tooLarge(limit)
  const bytes = await readBytes(request, limit)
  if (bytes.length === 0) return undefined
  if (!isJsonType(type))
    throw new ApiError('unsupported_media_type', 'send the body as `content-type: application/json`')
  if (bytes.length > smallBody) await turn()
  return parseJson(bytes, mostValues)
}

/** Reads bytes as JSON. Throws 400 `bad_request`. */
export function parseJson(bytes: Uint8Array, mostValues = Infinity): unknown {
  let text: string
  let value: unknown
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw notJson()
  }
  if (hasMoreValues(text, mostValues))
    throw new ApiError('bad_request', `the body has more than ${mostValues} values: send fewer`)
  try {
    value = JSON.parse(text)
  } catch {
    throw notJson()
  }
  checkJson(value, [])
  const flaw = flawOf(text)
  if (flaw !== null) throw badValue(flaw.path, wordsOf(flaw))
  return value
}

const notJson = (): ApiError => new ApiError('bad_request', 'the body is not JSON in UTF-8')

function wordsOf({ kind, path }: JsonFlaw): string {
  const place = `\`${path.join('.').slice(0, 200)}\``
  if (kind === 'repeated') return `${place} is there more than once: give it once`
  return `${path.length === 0 ? 'a number' : place} is a whole number beyond ±${Number.MAX_SAFE_INTEGER}, which readers round differently: give it as a text`
}

/** `path` is one stack for the whole walk: a body of a million numbers makes no million paths. */
function checkJson(value: unknown, path: (string | number)[]): void {
  if (typeof value === 'string') {
    if (!isStorable(value)) throw badValue(path, 'must not contain NUL characters or broken surrogate pairs')
    return
  }
  // `1e999` is read as infinity, which JSON cannot give back.
  if (typeof value === 'number' && !Number.isFinite(value))
    throw badValue(path, 'a number is too large to be kept')
  if (typeof value !== 'object' || value === null) return
  if (path.length >= maxDepth)
    throw new ApiError('bad_request', `the body is nested deeper than ${maxDepth} levels: make it flatter`)
  for (const [key, item] of Array.isArray(value) ? value.entries() : Object.entries(value)) {
    path.push(key)
    if (typeof key === 'string') checkKey(key, path)
    checkJson(item, path)
    path.pop()
  }
}

function checkKey(key: string, path: readonly (string | number)[]): void {
  if (!isStorable(key))
    throw badValue([], 'a field’s name must not contain NUL characters or broken surrogate pairs')
  if (unsafeKeys.has(key)) throw badValue(path, `a field cannot be called \`${key}\`: rename it`)
}

const isStorable = (text: string): boolean => !text.includes('\u0000') && text.isWellFormed()

function badValue(path: readonly (string | number)[], message: string): ApiError {
  return new ApiError('bad_request', message, [{ path: path.join('.'), message }])
}

async function readBytes(request: IncomingMessage, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      length += chunk.length
      if (length > limit) throw tooLarge(limit)
      chunks.push(chunk)
    }
  } catch (error) {
    if (error instanceof ApiError) throw error
    throw new ApiError('bad_request', 'the body ended before it was complete')
  }
  return Buffer.concat(chunks)
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
