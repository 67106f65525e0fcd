import {
  classify,
  nameForm,
  placeOfItem,
  reservedWords,
  type Reference,
  type Roots,
  type Segment,
} from '../reference.ts'
import { nearestNames } from '../tool-names.ts'
import { shapes, type Shape } from './functions.ts'
import { ExpressionError, precedence, type BinaryOperator, type Expression, type Node } from './syntax.ts'

/** Characters of one expression. */
export const longestExpression = 10_000
/** Nested brackets, calls and choices. */
export const deepestExpression = 50
/** Operators, parts and calls. A chain of them is read one within another. */
const mostOperations = 500

const blank = /\s*/y
const number = /\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const name = /[\p{L}_][\p{L}\p{N}_]*(?:-+[\p{L}\p{N}_]+)*/uy
const field = /\.([\p{L}\p{N}_]+(?:-+[\p{L}\p{N}_]+)*)/uy
const place = /\[(?:(\d{1,9})|(index)|"([^"\\]*)"|'([^'\\]*)')\]/y
const operator = /\?\?|\|\||&&|==|!=|<=|>=|[<>+\-*/%]|in(?![\p{L}\p{N}_-])/uy

const words: ReadonlyMap<string, boolean | null> = new Map([
  ['true', true],
  ['false', false],
  ['null', null],
])
/** No variable can have such a name. */
const notVariables: ReadonlySet<string> = new Set([
  ...reservedWords,
  ...words.keys(),
  'in',
  'run',
  'workflow',
])

/**
 * Reads the expression that begins after the `{{` at `open`, up to its `}}`. Returns the place behind it. Throws
 * ExpressionError.
 */
export function parseExpression(
  text: string,
  open: number,
  roots?: Roots,
): { readonly expression: Expression; readonly end: number } {
  const parser = new Parser(text, open + 2, roots)
  const node = parser.whole()
  return {
    expression: {
      kind: 'expression',
      text: text.slice(open, parser.at),
      node,
      references: parser.references,
    },
    end: parser.at,
  }
}

class Parser {
  at: number
  readonly references: Reference[] = []
  readonly #text: string
  readonly #begin: number
  readonly #roots: Roots | undefined
  readonly #variables: string[] = []
  #depth = 0
  #operations = 0

  constructor(text: string, at: number, roots?: Roots) {
    this.#text = text
    this.#roots = roots
    this.#begin = at
    this.at = at
  }

  whole(): Node {
    const node = this.#choice()
    if (!this.#takes('}}')) throw this.#wrong(`expected an operator or \`}}\`${this.#meant()}`)
    return node
  }

  #choice(): Node {
    this.#depth += 1
    if (this.#depth > deepestExpression) throw this.#wrong(`more than ${deepestExpression} nested parts`)
    const test = this.#binary(1)
    let node = test
    if (this.#takes('?')) {
      const yes = this.#choice()
      this.#needs(':')
      node = { is: 'choice', test, yes, no: this.#choice() }
    }
    this.#depth -= 1
    return node
  }

  #binary(least: number): Node {
    let left = this.#unary()
    for (;;) {
      const before = this.at
      const found = this.#read(operator)?.[0] as BinaryOperator | undefined
      if (found === undefined || precedence[found] < least) {
        this.at = before
        return left
      }
      this.#count()
      left = { is: 'binary', operator: found, left, right: this.#binary(precedence[found] + 1) }
    }
  }

  #unary(): Node {
    const signs: ('not' | 'minus')[] = []
    for (;;) {
      if (this.#peeks('!') && !this.#peeks('!=')) signs.push('not')
      else if (this.#peeks('-')) signs.push('minus')
      else break
      this.at += 1
      if (signs.length > deepestExpression) throw this.#wrong('too many signs')
    }
    return signs.reduceRight<Node>((of, is) => ({ is, of }), this.#parts(this.#primary()))
  }

  /** `.field`, `[0]`, `["key"]`, `[expression]` and `.function(…)` behind a value. */
  #parts(first: Node): Node {
    let of = first
    for (;;) {
      const key = this.#key()
      if (key === null) return of
      this.#count()
      if (key.isName && this.#peeks('(', false)) of = this.#call(key.name, of)
      else of = { is: 'part', of, key: key.isName ? key.name : key.node }
    }
  }

  #key(): { isName: true; name: string } | { isName: false; node: string | Node } | null {
    const named = this.#read(field)?.[1]
    if (named !== undefined) return { isName: true, name: named }
    const begin = this.at
    const segment = this.#segment()
    if (typeof segment === 'string') return { isName: false, node: segment }
    this.at = begin
    if (!this.#takes('[')) return null
    const node = this.#choice()
    this.#needs(']')
    return { isName: false, node }
  }

  #segment(): Segment | null {
    const [found, digits, index, double, single] = this.#read(place) ?? []
    if (found === undefined) return null
    return index === undefined ? (digits ?? double ?? single ?? '') : placeOfItem
  }

  #primary(): Node {
    if (this.#takes('(')) {
      const node = this.#choice()
      this.#needs(')')
      return node
    }
    if (this.#peeks('[')) return this.#list()
    if (this.#peeks('{')) return this.#object()
    if (this.#peeks('"') || this.#peeks("'")) return { is: 'value', value: this.#string() }
    const digits = this.#read(number)?.[0]
    if (digits !== undefined) return { is: 'value', value: Number(digits) }
    const word = this.#read(name)?.[0]
    if (word === undefined) throw this.#wrong('expected a value')
    const constant = words.get(word)
    if (constant !== undefined) return { is: 'value', value: constant }
    if (this.#peeks('(', false)) return this.#call(word, null)
    return this.#variables.includes(word) ? { is: 'variable', name: word } : this.#reference(word)
  }

  /** With as much of its path as is written out. A function behind it is not part of the path. */
  #reference(head: string): Node {
    const begin = this.at - head.length
    const path: Segment[] = []
    for (;;) {
      const before = this.at
      const named = this.#read(field)?.[1]
      const segment = named ?? this.#segment()
      if (segment === null || (named !== undefined && this.#peeks('(', false))) {
        this.at = before
        break
      }
      path.push(segment)
    }
    const written = this.#text.slice(begin, this.at)
    const reference = classify(head, path, `{{${written}}}`, this.#roots)
    if (reference.kind === 'unknown') throw this.#unknownName(head, written, begin)
    this.references.push(reference)
    return { is: 'reference', reference }
  }

  #unknownName(head: string, written: string, begin: number): ExpressionError {
    this.at = begin
    const dashed = /[\p{L}\p{N}_]-/u.test(head) ? ': write blanks around a minus' : ''
    const isStep =
      this.#roots === undefined && nameForm.test(head) && written !== head && !reservedWords.has(head)
    const hint = isStep
      ? `: the output of a step is \`${head}.output\`, and a variable is named first, as in \`filter(rows, row, …)\``
      : dashed
    return this.#wrong(`\`${written}\` is not a value${hint}`)
  }

  #call(called: string, receiver: Node | null): Node {
    const shape = Object.hasOwn(shapes, called) ? shapes[called] : undefined
    if (shape === undefined) {
      const near = nearestNames(called, Object.keys(shapes))
      const hint = near.length === 0 ? '' : `: do you mean ${near.map((each) => `\`${each}\``).join(' or ')}?`
      throw this.#wrong(`there is no function \`${called}\`${hint}`)
    }
    this.at += 1
    this.#depth += 1
    if (this.#depth > deepestExpression) throw this.#wrong(`more than ${deepestExpression} nested parts`)
    const args = receiver === null ? [] : [receiver]
    let each: Extract<Node, { is: 'call' }>['each'] = null
    for (let isFirst = true; !this.#takes(')'); isFirst = false) {
      if (!isFirst) this.#needs(',', ', or `)`')
      if (args.length === 1 && each === null && shape.each !== undefined && this.#isVariable())
        each = this.#each()
      else args.push(this.#choice())
    }
    this.#depth -= 1
    return this.#checked(called, shape, args, each)
  }

  /** A name and a comma: `row,`. */
  #isVariable(): boolean {
    const before = this.at
    const found = this.#read(name)?.[0]
    const isOne = found !== undefined && !notVariables.has(found) && this.#peeks(',')
    this.at = before
    return isOne
  }

  #each(): { readonly variable: string; readonly body: Node } {
    const variable = this.#read(name)?.[0] ?? ''
    this.#needs(',')
    this.#variables.push(variable)
    const body = this.#choice()
    this.#variables.pop()
    return { variable, body }
  }

  #checked(
    called: string,
    shape: Shape,
    args: readonly Node[],
    each: Extract<Node, { is: 'call' }>['each'],
  ): Node {
    const [least, most] = shape.args
    const isRight = args.length >= least && args.length <= most && (shape.each !== 'needed' || each !== null)
    if (!isRight) throw this.#wrong(`\`${called}\` is written \`${shape.written}\``)
    return { is: 'call', name: called, args, each }
  }

  #list(): Node {
    this.at += 1
    const items: Node[] = []
    while (!this.#takes(']')) {
      if (items.length > 0) this.#needs(',')
      items.push(this.#choice())
    }
    return { is: 'list', items }
  }

  #object(): Node {
    this.at += 1
    const fields = new Map<string, Node>()
    while (!this.#takes('}')) {
      if (fields.size > 0) this.#needs(',')
      const isQuoted = this.#peeks('"') || this.#peeks("'")
      const key = isQuoted ? this.#string() : this.#read(name)?.[0]
      if (key === undefined) throw this.#wrong('expected the name of a field')
      if (fields.has(key)) throw this.#wrong(`the field \`${key}\` is written twice`)
      this.#needs(':')
      fields.set(key, this.#choice())
    }
    return { is: 'object', fields: [...fields] }
  }

  #string(): string {
    const quote = this.#text[this.at]
    let found = ''
    for (this.at += 1; ; this.at += 1) {
      const character = this.#text[this.at]
      if (character === undefined) throw this.#wrong('a text in quotes has no end')
      if (character === quote) break
      this.#checkLength()
      found += character === '\\' ? this.#escaped() : character
    }
    this.at += 1
    if (!found.isWellFormed() || found.includes('\u0000'))
      throw this.#wrong('a text has a character that cannot be stored')
    return found
  }

  #escaped(): string {
    this.at += 1
    const character = this.#text[this.at] ?? ''
    const simple = escapes[character]
    if (simple !== undefined) return simple
    const code = /^u([0-9a-fA-F]{4})/.exec(this.#text.slice(this.at, this.at + 5))?.[1]
    if (code === undefined)
      throw this.#wrong(`\`\\${character}\` means nothing in a text: write \`\\\\\` for a backslash`)
    this.at += 4
    return String.fromCharCode(Number.parseInt(code, 16))
  }

  /** Skips blanks. */
  #peeks(text: string, mayBeBlank = true): boolean {
    if (mayBeBlank) this.#read(blank)
    return this.#text.startsWith(text, this.at)
  }

  #takes(text: string): boolean {
    const found = this.#peeks(text)
    if (found) this.at += text.length
    return found
  }

  #needs(text: string, more = ''): void {
    if (!this.#takes(text)) throw this.#wrong(`expected \`${text}\`${more}${this.#meant()}`)
  }

  /** For signs and words of other languages. */
  #meant(): string {
    const found = /\s*(=>|=|\band\b|\bor\b|&|\|)/y
    found.lastIndex = this.at
    const written = found.exec(this.#text)?.[1]
    return written === undefined ? '' : `: in place of \`${written}\` write ${instead[written] ?? ''}`
  }

  #read(pattern: RegExp): RegExpExecArray | null {
    if (pattern !== blank && pattern !== field && pattern !== place) this.#read(blank)
    this.#checkLength()
    pattern.lastIndex = this.at
    const found = pattern.exec(this.#text)
    if (found !== null) this.at = pattern.lastIndex
    return found
  }

  #count(): void {
    this.#operations += 1
    if (this.#operations > mostOperations)
      throw this.#wrong(`more than ${mostOperations} operators, parts and calls: use more steps`)
  }

  #checkLength(): void {
    if (this.at - this.#begin > longestExpression)
      throw this.#wrong(`an expression has at most ${longestExpression.toLocaleString('en-US')} characters`)
  }

  #wrong(message: string): ExpressionError {
    const rest = this.#text.slice(this.at, this.at + 20)
    const where = this.at >= this.#text.length ? 'at the end' : `before \`${rest}\``
    return new ExpressionError(`${message} (${where}, character ${this.at - this.#begin + 1})`)
  }
}

const instead: Readonly<Record<string, string>> = {
  '=': '`==`',
  '=>': '`map(rows, row, …)`',
  and: '`&&`',
  or: '`||`',
  '&': '`&&`',
  '|': '`||`, or a function such as `trim(…)`',
}

const escapes: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  '\\': '\\',
  '"': '"',
  "'": "'",
}
