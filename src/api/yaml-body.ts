import {
  isAlias,
  isMap,
  isScalar,
  LineCounter,
  parseDocument,
  visit,
  type Document,
  type YAMLError,
} from 'yaml'
import type { ErrorDetail } from '../governance/errors.ts'
import { ApiError } from './errors.ts'

/*
 * A definition as YAML 1.2: the part that is JSON in other clothes. Anchors, aliases and tags are refused, because a few
 * lines with them can stand for any number of values, and because the stored definition has none.
 */

/** Bytes. Reading blocks the process: the worst text of this length takes about 0.3 s. */
export const mostYaml = 64 * 1024

const yamlTypes: ReadonlySet<string> = new Set(['application/yaml', 'application/x-yaml', 'text/yaml'])

export const isYamlType = (header: string | undefined): boolean =>
  yamlTypes.has((header ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '')

/** Where the values of a body stand in its text. */
const places = new WeakMap<object, (path: string) => string | null>()

/** JSON text of the document, and `line 3, column 5` of a dotted path in it. Throws 400 and 413 with the place. */
export function readYaml(bytes: Uint8Array): {
  readonly json: string
  readonly placeOf: (path: string) => string | null
} {
  if (bytes.length > mostYaml)
    throw new ApiError(
      'too_large',
      `a definition as YAML has at most ${mostYaml / 1024} KiB: send it as JSON`,
    )
  const lines = new LineCounter()
  const document = parsed(bytes, lines)
  const place = (offset: number): string => {
    const { line, col } = lines.linePos(offset)
    return `line ${line}, column ${col}`
  }
  const refuse = (offset: number, message: string): never => {
    throw new ApiError('bad_request', `the YAML cannot be read: ${place(offset)}: ${message}`)
  }
  const [error, next] = [...document.errors, ...document.warnings]
  if (error !== undefined) refuse(error.pos[0], wordsOf(error, next, bytes))
  visit(document, (_, node) => {
    if (isAlias(node)) refuse(node.range?.[0] ?? 0, 'write the value again: aliases (`*name`) are not read')
    if (typeof node !== 'object' || node === null || !('range' in node)) return
    const at = (node.range as [number] | null | undefined)?.[0] ?? 0
    if ('anchor' in node && node.anchor !== undefined) refuse(at, 'leave the anchor (`&name`) out')
    if ('tag' in node && node.tag !== undefined) refuse(at, 'leave the tag (`!name`) out')
    if (isScalar(node) && typeof node.value === 'number' && !Number.isFinite(node.value))
      refuse(at, 'this is no number of JSON')
    if (!isMap(node)) return
    const names = new Set<string>()
    for (const { key } of node.items) {
      const from = (key as { range?: [number] }).range?.[0] ?? at
      if (isMap(key) && node.flow === true) refuse(from, unquoted)
      else if (!isScalar(key) || typeof key.value !== 'string')
        refuse(from, 'the name of a field is text: put it in quotes')
      else if (names.has(key.value)) refuse(from, 'the field is there twice')
      else names.add(key.value)
    }
  })
  return {
    json: JSON.stringify(document.toJS({ maxAliasCount: 0 })) ?? 'null',
    placeOf(path) {
      const node = nearest(document, path)
      return node === null ? null : place(node)
    },
  }
}

const tooDeep = 'it is nested too deep: make it flatter'
/** To YAML, two open braces are an object whose first name is an object. */
const unquoted = 'write a template in quotes: `"{{input.a}}"`'

/** The most common mistakes, in words that say what to change. */
function wordsOf({ message, code, pos }: YAMLError, next: YAMLError | undefined, bytes: Uint8Array): string {
  if (/call stack/.test(message)) return tooDeep
  const before = new TextDecoder().decode(bytes).slice(0, pos[0])
  if (/(?:^|\n)[ -]*(?:[\w-]+: +)?\{\{[^\n]*$/.test(before)) return unquoted
  // With the other code, the next line is indented too far.
  if (code === 'BLOCK_AS_IMPLICIT_KEY' && next?.code !== 'MULTILINE_IMPLICIT_KEY')
    return 'put a text with `: ` in quotes'
  return message
}

function parsed(bytes: Uint8Array, lineCounter: LineCounter): Document {
  // The library makes an error for each wrong character, and the stack of the error costs more than the character.
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    // The library compares each name with all others, so `readYaml` itself finds a name that is there twice.
    const options = { version: '1.2', schema: 'core', prettyErrors: false, uniqueKeys: false } as const
    return parseDocument(text, { ...options, lineCounter })
  } catch (error) {
    const why = error instanceof RangeError ? tooDeep : 'it is not UTF-8'
    throw new ApiError('bad_request', `the YAML cannot be read: ${why}`)
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

/** The offset of the value at the path, or of the innermost one around it. */
function nearest(document: Document, path: string): number | null {
  const way = path.split('.').filter((each) => each !== '')
  for (let length = way.length; length >= 0; length -= 1) {
    const node = document.getIn(way.slice(0, length).map(segment), true) as { range?: [number] } | undefined
    if (node?.range !== undefined) return node.range[0]
  }
  return null
}

const segment = (text: string): string | number => (/^\d+$/.test(text) ? Number(text) : text)

/** The body has the document as `definition`. */
export function bodyOfYaml(bytes: Uint8Array, parse: (json: string) => unknown): object {
  const { json, placeOf } = readYaml(bytes)
  const body = { definition: parse(json) }
  places.set(body, (path) => placeOf(path.replace(/^definition\.?/, '')))
  return body
}

/** Each detail of an error about a body that was YAML begins with its line and column. */
export function withPlaces(error: unknown, body: unknown): unknown {
  const placeOf = typeof body === 'object' && body !== null ? places.get(body) : undefined
  const { code, message, details } = error as ApiError
  if (placeOf === undefined || !Array.isArray(details) || details.length === 0) return error
  const placed = (details as readonly ErrorDetail[]).map((detail) => {
    const place = placeOf(detail.path)
    return place === null ? detail : { ...detail, message: `${place}: ${detail.message}` }
  })
  const first = placeOf((details[0] as ErrorDetail).path)
  return new ApiError(code, first === null ? message : `${message} (${first})`, placed)
}
