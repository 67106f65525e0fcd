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

/*
 * YAML 1.2 as far as it is JSON in other clothes. Anchors, aliases and tags are refused, because a few lines with them
 * can stand for any number of values, and because JSON has none.
 */

/** `place` is such as `line 3, column 5`, and null if the whole text cannot be read. */
export class YamlMistake extends Error {
  readonly place: string | null

  constructor(place: string | null, message: string) {
    super(message)
    this.place = place
  }
}

export interface ReadYaml {
  readonly json: string
  /** Where the value at a dotted path stands, or the innermost one around it. */
  readonly placeOf: (path: string) => string | null
  readonly document: Document
}

/** Reading blocks the process: the worst text of 64 KiB takes about 0.3 s. Throws `YamlMistake`. */
export function readYaml(bytes: Uint8Array): ReadYaml {
  const lines = new LineCounter()
  const document = parsed(bytes, lines)
  const place = (offset: number): string => {
    const { line, col } = lines.linePos(offset)
    return `line ${line}, column ${col}`
  }
  const refuse = (offset: number, message: string): never => {
    throw new YamlMistake(place(offset), message)
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
    // As for JSON: readers round it, each in its own way.
    if (isScalar(node) && isRounded(node.value, node.source))
      refuse(at, 'this is a whole number beyond ±9007199254740991, which readers round: put it in quotes')
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
    document,
  }
}

const isRounded = (value: unknown, source = ''): boolean =>
  typeof value === 'number' && !Number.isSafeInteger(value) && /^([-+]?\d+|0[xo].*)$/.test(source)

const tooDeep = 'it is nested too deep: make it flatter'
/** To YAML, two open braces are an object whose first name is an object. */
const unquoted = 'write a template in quotes: `"{{input.a}}"`'

/** The most common mistakes, in words that say what to change. */
function wordsOf({ message, code, pos }: YAMLError, next: YAMLError | undefined, bytes: Uint8Array): string {
  if (/call stack/.test(message)) return tooDeep
  if (code === 'MULTIPLE_DOCS') return 'a text has one document: write the next one into a file of its own'
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
    throw new YamlMistake(null, why)
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
