import type { IncomingMessage } from 'node:http'
import { nextTurn } from '../shared/time-slices.ts'
import { deepestJson, inspectJson } from '../contract/json.ts'
import { headlineWithField, shownPath } from '../policy/issues.ts'
import { arrived } from './body-bytes.ts'
import { ApiError } from './errors.ts'
import { bodyOfYaml, isYamlType } from './yaml-body.ts'

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
  takesYaml = false,
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
  if (takesYaml && isYamlType(type)) {
    await nextTurn()
    return bodyOfYaml(bytes, (json) => parseJson(Buffer.from(json), most))
  }
  if (!isJsonType(type))
    throw new ApiError(
      'unsupported_media_type',
      `send the body as \`content-type: application/json\`${takesYaml ? ', or YAML as `application/yaml`' : ''}`,
    )
  if (isLarge) await nextTurn()
  return parseJson(bytes, most, takesYaml)
}

/**
 * Throws 400 if the body is not JSON, too large or deep, cannot be stored, or is ambiguous (`flawOf`). Values, levels
 * and names are counted first, so that a body with too many is refused quickly.
 */
export function parseJson(bytes: Uint8Array, most = mostValues, takesYaml = false): unknown {
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
    throw notJson(text, takesYaml && !/^\s*[{[]/.test(text))
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
function notJson(text: string, isYaml: boolean): ApiError {
  const error = syntaxErrorOf(text)
  if (error === null) return new ApiError('bad_request', 'the body is not JSON')
  const { line, column, expected, isAtEnd } = error
  return new ApiError(
    'bad_request',
    `the body is not JSON: line ${line}, column ${column}: expected ${expected}${isAtEnd ? ', but the body ends' : ''}${isYaml ? '; send YAML as `content-type: application/yaml`' : ''}`,
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

interface Level {
  /** Keys that were read in this object; null for a list. */
  readonly keys: Set<string> | null
  /** The current key or index. */
  at: string | number
}

const [quote, backslash] = [0x22, 0x5c]

/** Where `JSON.parse` silently loses information. */
export interface JsonFlaw {
  readonly kind: 'repeated' | 'inexact'
  readonly path: readonly (string | number)[]
}

/**
 * The first ambiguity in a text that is JSON.
 * - `repeated`: of two equal keys, `JSON.parse` keeps the last one and other parsers the first. A rule could mean one
 *   thing to its reviewer and another to this service.
 * - `inexact`: a whole number beyond ±(2^53-1) is rounded. A payment to account 9007199254740993 would go to
 *   9007199254740992. Numbers with a point or an exponent are not reported, because every parser rounds them.
 */
export function flawOf(text: string): JsonFlaw | null {
  const levels: Level[] = []
  let keyFollows = false
  for (let place = 0; place < text.length; place += 1) {
    const level = levels.at(-1)
    const sign = text.charCodeAt(place)
    switch (sign) {
      case 0x7b: // {
        levels.push({ keys: new Set(), at: '' })
        keyFollows = true
        break
      case 0x5b: // [
        levels.push({ keys: null, at: 0 })
        keyFollows = false
        break
      case 0x7d: // }
      case 0x5d: // ]
        levels.pop()
        keyFollows = false
        break
      case 0x2c: // ,
        keyFollows = level?.keys != null
        if (typeof level?.at === 'number') level.at += 1
        break
      case quote: {
        const end = endOfString(text, place)
        if (keyFollows && level?.keys != null) {
          const key = stringOf(text.slice(place, end))
          level.at = key
          if (level.keys.has(key)) return { kind: 'repeated', path: levels.map(({ at }) => at) }
          level.keys.add(key)
          keyFollows = false
        }
        place = end - 1
        break
      }
      default: {
        if (!isDigit(sign)) break
        const end = endOfNumber(text, place)
        if (end - place >= shortestInexact && isInexact(text.slice(place, end)))
          return { kind: 'inexact', path: levels.map(({ at }) => at) }
        place = end - 1
      }
    }
  }
  return null
}

interface JsonSize {
  /** An empty list or object counts as two. */
  readonly values: number
  readonly fields: number
  /** The deepest level of nested lists and objects. */
  readonly depth: number
  /** A number has so many digits that `JSON.parse` may round it. */
  readonly hasLongNumbers: boolean
}

/** In much less time than parsing. Stops above either limit. Without meaning for a text that is not JSON. */
export function sizeOf(text: string, mostValues: number, deepest: number): JsonSize {
  let [values, fields, level, depth, digits] = [1, 0, 0, 0, 0]
  let hasLongNumbers = false
  for (let place = 0; place < text.length && values <= mostValues && depth <= deepest; place += 1) {
    const sign = text.charCodeAt(place)
    if (isDigit(sign)) {
      digits += 1
      if (digits >= shortestInexact) hasLongNumbers = true
      continue
    }
    digits = 0
    if (sign === quote) place = endOfString(text, place) - 1
    else if (sign === 0x2c) values += 1
    else if (sign === 0x3a) fields += 1
    else if (sign === 0x5b || sign === 0x7b) {
      values += 1
      level += 1
      if (level > depth) depth = level
    } else if (sign === 0x5d || sign === 0x7d) level -= 1
  }
  return { values, fields, depth, hasLongNumbers }
}

/** Names are compared as they are written: `"a"` and `"\u0061"` count as two. */
export function hasMoreNames(text: string, most: number): boolean {
  const names = new Set<string>()
  let [start, end] = [0, 0]
  for (let place = 0; place < text.length && names.size <= most; place += 1) {
    const sign = text.charCodeAt(place)
    if (sign === quote) {
      start = place
      end = endOfString(text, place)
      place = end - 1
    } else if (sign === 0x3a) names.add(text.slice(start + 1, end - 1))
  }
  return names.size > most
}

/** Without quotes and escapes. */
const stringOf = (written: string): string =>
  written.includes('\\') ? (JSON.parse(written) as string) : written.slice(1, -1)

/** The index after the closing quote. */
function endOfString(text: string, start: number): number {
  let place = start + 1
  while (place < text.length && text.charCodeAt(place) !== quote)
    place += text.charCodeAt(place) === backslash ? 2 : 1
  return place + 1
}

const isDigit = (sign: number): boolean => sign >= 0x30 && sign <= 0x39

/** The index after the number. */
function endOfNumber(text: string, start: number): number {
  let place = start + 1
  for (; place < text.length; place += 1) {
    const sign = text.charCodeAt(place)
    if (!isDigit(sign) && sign !== 0x2e && (sign | 0x20) !== 0x65 && sign !== 0x2b && sign !== 0x2d) break
  }
  return place
}

/** Digits in 2^53. `JSON.parse` reads every whole number with fewer digits exactly. */
const shortestInexact = 16

const isInexact = (number: string): boolean => /^\d+$/.test(number) && !Number.isSafeInteger(Number(number))

/** The first position where a text stops being JSON: in `[1,]` that of `]`. */
interface JsonError {
  /** From 1. A column is one UTF-16 code unit, as in editors. */
  readonly line: number
  readonly column: number
  /** What JSON allows at this position. */
  readonly expected: string
  readonly isAtEnd: boolean
}

type State = 'value' | 'element' | 'name' | 'first name' | 'colon' | 'next' | 'end'

/** null if the text is JSON. Reads each character once, and builds no values. */
export function syntaxErrorOf(text: string): JsonError | null {
  const flaw = new Reader(text).read()
  if (flaw === null) return null
  const before = text.lastIndexOf('\n', flaw.at - 1)
  let line = 1
  for (let at = text.indexOf('\n'); at >= 0 && at < flaw.at; at = text.indexOf('\n', at + 1)) line += 1
  const column = flaw.at - (flaw.at === 0 ? -1 : before)
  return { line, column, expected: flaw.expected, isAtEnd: flaw.at >= text.length }
}

interface Flaw {
  readonly at: number
  readonly expected: string
}

class Reader {
  readonly #text: string
  #at = 0
  #state: State = 'value'
  /** The closing marks of open lists and objects, the innermost last. */
  readonly #open: (']' | '}')[] = []

  constructor(text: string) {
    this.#text = text
  }

  read(): Flaw | null {
    for (;;) {
      while (' \t\n\r'.includes(this.#sign || 'x')) this.#at += 1
      if (this.#at >= this.#text.length) return this.#state === 'end' ? null : this.#flaw(this.#wanted())
      const flaw = this.#token(this.#sign)
      if (flaw !== null) return flaw
    }
  }

  /** Empty at the end. */
  get #sign(): string {
    return this.#text.charAt(this.#at)
  }

  #flaw(expected: string): Flaw {
    return { at: this.#at, expected }
  }

  #token(sign: string): Flaw | null {
    const close = this.#open.at(-1)
    switch (this.#state) {
      case 'colon':
        return sign === ':' ? this.#take('value') : this.#flaw(this.#wanted())
      case 'next':
        if (sign === ',') return this.#take(close === '}' ? 'name' : 'value')
        return sign === close ? this.#close() : this.#flaw(this.#wanted())
      case 'first name':
      case 'name':
        if (sign === '"') return this.#string('colon')
        return sign === '}' && this.#state === 'first name' ? this.#close() : this.#flaw(this.#wanted())
      case 'element':
        return sign === ']' ? this.#close() : this.#value(sign)
      case 'value':
        return this.#value(sign)
      default:
        return this.#flaw(this.#wanted())
    }
  }

  #wanted(): string {
    switch (this.#state) {
      case 'colon':
        return '`:`'
      case 'next':
        return `\`,\` or \`${this.#open.at(-1) ?? ''}\``
      case 'name':
        return 'a name in double quotes'
      case 'first name':
        return 'a name in double quotes or `}`'
      case 'element':
        return 'a value or `]`'
      case 'value':
        return 'a value'
      default:
        return 'the end of the body'
    }
  }

  #take(state: State): null {
    this.#at += 1
    this.#state = state
    return null
  }

  #close(): null {
    this.#open.pop()
    return this.#take(this.#afterValue())
  }

  #afterValue(): State {
    return this.#open.length === 0 ? 'end' : 'next'
  }

  #value(sign: string): Flaw | null {
    if (sign === '{') {
      this.#open.push('}')
      return this.#take('first name')
    }
    if (sign === '[') {
      this.#open.push(']')
      return this.#take('element')
    }
    if (sign === '"') return this.#string(this.#afterValue())
    const word = { t: 'true', f: 'false', n: 'null' }[sign]
    if (word !== undefined) return this.#word(word)
    return sign === '-' || isDigitSign(sign) ? this.#number() : this.#flaw(this.#wanted())
  }

  #word(word: string): Flaw | null {
    for (const letter of word) {
      if (this.#sign !== letter) return this.#flaw(`\`${word}\``)
      this.#at += 1
    }
    this.#state = this.#afterValue()
    return null
  }

  #number(): Flaw | null {
    if (this.#sign === '-') this.#at += 1
    if (this.#sign === '0') this.#at += 1
    else if (!this.#digits()) return this.#flaw('a digit')
    if (this.#sign === '.') {
      this.#at += 1
      if (!this.#digits()) return this.#flaw('a digit')
    }
    if (/^[eE]$/.test(this.#sign)) {
      this.#at += 1
      if (/^[+-]$/.test(this.#sign)) this.#at += 1
      if (!this.#digits()) return this.#flaw('a digit')
    }
    this.#state = this.#afterValue()
    return null
  }

  #digits(): boolean {
    const start = this.#at
    while (isDigitSign(this.#sign)) this.#at += 1
    return this.#at > start
  }

  #string(next: State): Flaw | null {
    for (this.#at += 1; this.#at < this.#text.length; this.#at += 1) {
      const code = this.#text.charCodeAt(this.#at)
      if (code === 0x22) return this.#take(next)
      if (code < 0x20)
        return this.#flaw('`"`, or an escape such as `\\n`: a text has no line breaks and tabs')
      if (code !== 0x5c) continue
      this.#at += 1
      if (this.#sign === 'u') {
        for (let left = 4; left > 0; left -= 1) {
          this.#at += 1
          if (!/^[0-9a-fA-F]$/.test(this.#sign)) return this.#flaw('a hexadecimal digit')
        }
      } else if (!'"\\/bfnrt'.includes(this.#sign || 'x'))
        return this.#flaw('an escape such as `\\n` or `\\\\`')
    }
    return this.#flaw('`"`')
  }
}

const isDigitSign = (sign: string): boolean => sign >= '0' && sign <= '9'
