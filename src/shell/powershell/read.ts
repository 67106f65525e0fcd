import { output, unknown } from '../marks.ts'

/** What the reader finds. Texts contain the marks of `marks.ts`. A script block counts as run wherever it stands. */
export interface Sink {
  /** `piped`: it reads what the command before it returns. `blocks`: how many of its words are script blocks. */
  command(words: readonly string[], piped: boolean, blocks: number): void
  /** `[Name]`, and `[Name]::member` with the member. */
  type(name: string, member: string | undefined): void
  /** `value.Name` or `value.Name(...)`. */
  member(name: string): void
  assign(name: string, value: string): void
  /** A constant text. `writes`: it is the target of a redirection. */
  text(text: string, writes?: boolean): void
  defines(name: string): void
  /** The value of a variable as far as the command sets it; undefined if it is not known. */
  valueOf(name: string): string | undefined
  /** A part that this reader does not understand. */
  unread(): void
}

const deepest = 60
const blank = /(?:[ \t\u00a0\f\v]|`\r?\n|#[^\n\r]*)+/y
const anyBlank = /(?:[\s;\u00a0]|`\r?\n|#[^\n\r]*)+/y
/** After an operator an expression goes on, also on the next line. */
const lines = /(?:[\s\u00a0]|`\r?\n)+/y
const number = /\d+(?:\.\d+)?(?:e[+-]?\d+)?[dlu]?(?:[kmgtp]b)?(?=[\s;|)\]},.*/%+-]|$)|0x[\da-f]+/iy
const variable =
  /\$(?:\{([^}]*)\}|((?:(?:env|global|local|script|private|using|function|alias|variable):)?\w+)|([$?^_]))/iy
const bare = /[^\s;|&(){},<>"'`$#@\u2018-\u201f\u2013-\u2015]+/y
const word = /[A-Za-z_][\w-]*/y
const operator = /-[A-Za-z]+|[-+*/%]=|\?\?=|=|--|\+\+|\.\.|[-+*/%!,?:]/y
const redirect = /[\d*]?>>?(?:&\d)?/y

/** Words after which a statement begins, or a condition in parentheses and a block. */
const keywords = new Set(
  `if elseif else while until for do try catch finally begin process end dynamicparam return throw exit break continue trap in
  param switch default`.split(/\s+/),
)

/**
 * Reads PowerShell as far as rules need it: which commands run with which words, and which types and methods of .NET it
 * uses. Where the language is larger than this, the reader says `unread`. It looks at each character at most twice.
 */
export class Reader {
  readonly #text: string
  readonly #sink: Sink
  #at = 0
  #depth: number

  constructor(text: string, sink: Sink, depth = 0) {
    this.#text = text
    this.#sink = sink
    this.#depth = depth
  }

  read(): void {
    this.#statements(undefined)
    if (this.#at < this.#text.length) this.#sink.unread()
  }

  #peek(ahead = 0): string {
    return this.#text[this.#at + ahead] ?? ''
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)
    if (found === null || found[0] === '') return undefined
    this.#at = pattern.lastIndex
    return found[0]
  }

  /** To the next statement. */
  #skip(): void {
    while (this.#take(anyBlank) !== undefined || this.#text.startsWith('<#', this.#at)) {
      if (!this.#text.startsWith('<#', this.#at)) continue
      const end = this.#text.indexOf('#>', this.#at)
      if (end < 0) this.#sink.unread()
      this.#at = end < 0 ? this.#text.length : end + 2
    }
  }

  #statements(close: string | undefined): void {
    for (;;) {
      this.#skip()
      const next = this.#peek()
      if (next === '') {
        if (close !== undefined) this.#sink.unread()
        break
      }
      if (next === close) {
        this.#at += 1
        break
      }
      const before = this.#at
      this.#pipeline()
      if (this.#at === before) {
        this.#sink.unread()
        this.#at += 1
      }
    }
  }

  /** Returns the text of its only expression, or the mark of an output. */
  #pipeline(): string {
    this.#depth += 1
    if (this.#depth > deepest) throw new Error('too deep')
    let value = this.#element(false)
    for (;;) {
      this.#take(blank)
      const sign = this.#take(/\|\||&&|\||&/y)
      if (sign === undefined || sign === '&') break
      this.#skip()
      this.#element(sign === '|')
      value = output
    }
    this.#depth -= 1
    return value
  }

  #element(piped: boolean): string {
    const next = this.#peek()
    if (next === '&' || (next === '.' && /[\s"'$({]/.test(this.#peek(1)))) {
      this.#at += 1
      this.#take(blank)
      this.#command(piped, true)
      return output
    }
    if (/[$@("'[+!,{\u2018-\u201f-]/.test(next)) return this.#expression()
    number.lastIndex = this.#at
    if (number.test(this.#text)) return this.#expression()
    word.lastIndex = this.#at
    const name = word.exec(this.#text)?.[0].toLowerCase() ?? ''
    const end = this.#text[word.lastIndex] ?? ''
    if (keywords.has(name) && !/[\w.\\/:]/.test(end)) return this.#keyword(name)
    if (name === 'foreach' && !piped && /^\s*\(/.test(this.#text.slice(word.lastIndex, word.lastIndex + 8)))
      return this.#keyword(name)
    if (name === 'function' || name === 'filter') return this.#definition()
    if (/^(class|enum|using|workflow|configuration)$/.test(name)) this.#sink.unread()
    this.#command(piped, false)
    return output
  }

  #keyword(name: string): string {
    this.#at += name.length
    if (name === 'switch') this.#take(/(?:\s|-\w+)+/y)
    else this.#skip()
    // `catch [System.IO.IOException]` names a type of errors.
    if (name === 'catch') this.#take(/\[[\w.]+\]\s*(?:,\s*\[[\w.]+\]\s*)*/y)
    return output
  }

  #definition(): string {
    this.#take(/\w+\s+/y)
    const name = this.#take(/[\w:-]+/y)
    if (name === undefined) this.#sink.unread()
    else this.#sink.defines(name)
    return output
  }

  /** The words of a command up to the end of the statement. `called`: after `&`, where a text is the name. */
  #command(piped: boolean, called: boolean): void {
    const words: string[] = []
    let blocks = 0
    for (let isFirst = true; ; isFirst = false) {
      this.#take(blank)
      const next = this.#peek()
      if (next === '' || /[\n\r;|)}]/.test(next)) break
      if (next === '&') break
      if (next === ',') {
        this.#at += 1
        continue
      }
      if (this.#redirected()) continue
      if (next === '{') {
        this.#at += 1
        this.#statements('}')
        blocks += 1
        if (isFirst && called) words.push('{}')
        continue
      }
      if (this.#take(/--%/y) !== undefined) {
        words.push(...(this.#take(/[^\n\r|]+/y) ?? '').trim().split(/\s+/))
        continue
      }
      const before = this.#at
      words.push(this.#word())
      if (this.#at === before) {
        this.#sink.unread()
        this.#at += 1
      }
    }
    if (words.length > 0 || blocks > 0) this.#sink.command(words, piped, blocks)
  }

  #redirected(): boolean {
    const sign = this.#take(redirect)
    if (sign === undefined) return false
    this.#take(blank)
    if (!sign.includes('&')) this.#sink.text(this.#word(), true)
    return true
  }

  /** A word of a command: pieces of text, of variables and in quotes, without a blank between. */
  #word(): string {
    let text = ''
    for (;;) {
      const next = this.#peek()
      if (next === "'" || next === '"' || /[\u2018-\u201f]/.test(next)) text += this.#quoted()
      else if (next === '`') {
        text += this.#peek(1)
        this.#at += 2
      } else if (next === '$') text += this.#dollar()
      else if (next === '@' && /[({"']/.test(this.#peek(1))) text += this.#primary()
      else if (next === '@') {
        this.#at += 1
        this.#take(/\w+/y)
        text += unknown
      } else if (next === '(' && text === '') text += this.#group()
      else if (next === '#' && text !== '') {
        this.#at += 1
        text += '#'
      } else {
        const piece = this.#take(bare)
        if (piece === undefined) break
        text += piece
      }
      // `$x.Name` and `$x[0]` are parts of the value; after other texts these signs are text.
      if (text === unknown || text === output) this.#accesses()
      if (/[\s;|&){},<>]/.test(this.#peek()) || this.#peek() === '') break
    }
    if (text.length > 0) this.#sink.text(text)
    return text
  }

  #escape(): string {
    const next = this.#peek(1)
    this.#at += 2
    return { n: '\n', t: '\t', r: '\r', '0': '', a: '', b: '', '\n': ' ', '\r': ' ' }[next] ?? next
  }

  #group(): string {
    this.#at += 1
    this.#skip()
    const value = this.#peek() === ')' ? '' : this.#pipeline()
    this.#skip()
    if (this.#peek() === ')') {
      this.#at += 1
      return value
    }
    this.#statements(')')
    return output
  }

  /** After `$`: a variable, or `$(...)`. */
  #dollar(): string {
    if (this.#peek(1) === '(') {
      this.#at += 1
      this.#group()
      return output
    }
    const found = this.#variable()
    if (found !== undefined) return this.#sink.valueOf(found) ?? unknown
    this.#at += 1
    return '$'
  }

  #variable(): string | undefined {
    variable.lastIndex = this.#at
    const found = variable.exec(this.#text)
    if (found === null) return undefined
    this.#at = variable.lastIndex
    return (found[1] ?? found[2] ?? found[3] ?? '')
      .toLowerCase()
      .replace(/^(global|local|script|private|using|variable):/, '')
  }

  #quoted(): string {
    const text = /['\u2018-\u201b]/.test(this.#peek()) ? this.#single() : this.#double()
    this.#sink.text(text)
    return text
  }

  #single(): string {
    this.#at += 1
    let text = ''
    for (;;) {
      text += this.#take(/[^'\u2018-\u201b]+/y) ?? ''
      if (this.#peek() === '') {
        this.#sink.unread()
        return text
      }
      this.#at += 1
      if (!/['\u2018-\u201b]/.test(this.#peek())) return text
      text += "'"
      this.#at += 1
    }
  }

  #double(): string {
    this.#at += 1
    let text = ''
    for (;;) {
      text += this.#mixed(/[^"`$\u201c-\u201f]+/y)
      if (this.#peek() === '') {
        this.#sink.unread()
        return text
      }
      this.#at += 1
      if (!/["\u201c-\u201f]/.test(this.#peek())) return text
      text += '"'
      this.#at += 1
    }
  }

  /** Text with variables and escapes, up to a character that `plain` does not match. */
  #mixed(plain: RegExp): string {
    let text = ''
    for (;;) {
      text += this.#take(plain) ?? ''
      if (this.#peek() === '`') text += this.#escape()
      else if (this.#peek() === '$') text += this.#dollar()
      else return text
    }
  }

  /** A text on lines of its own: `@'` to `'@`. In `@"`, variables count. */
  #hereText(): string {
    const mark = this.#peek(1)
    const start = this.#text.indexOf('\n', this.#at)
    const end = start < 0 ? -1 : this.#text.indexOf(`\n${mark}@`, start)
    if (end < 0) {
      this.#sink.unread()
      this.#at = this.#text.length
      return unknown
    }
    const body = this.#text.slice(start + 1, end)
    this.#at = end + 3
    if (mark === "'" || !/[$`]/.test(body)) return body
    return new Reader(body, this.#sink, this.#depth + 1).#mixed(/[^`$]+/y)
  }

  #hash(): string {
    this.#at += 2
    for (;;) {
      this.#skip()
      const next = this.#peek()
      if (next === '}') {
        this.#at += 1
        return unknown
      }
      if (/["'$(@]/.test(next)) this.#primary()
      else if (this.#take(/[\w.-]+/y) === undefined) break
      this.#take(blank)
      if (this.#take(/=/y) === undefined) break
      this.#skip()
      this.#pipeline()
    }
    this.#sink.unread()
    this.#statements('}')
    return unknown
  }

  /** One value: a text, a variable, a group, a list, a table, a block or a type. */
  #primary(): string {
    const next = this.#peek()
    const after = this.#peek(1)
    if (next === '"' || next === "'" || /[\u2018-\u201f]/.test(next)) return this.#quoted()
    if (next === '$') return this.#dollar()
    if (next === '(') return this.#group()
    if (next === '[') return this.#type()
    if (next === '@' && (after === '"' || after === "'")) return this.#hereText()
    if (next === '@' && after === '{') return this.#hash()
    if (next === '@' && after === '(') {
      this.#at += 1
      this.#group()
      return unknown
    }
    if (next === '{') {
      this.#at += 1
      this.#statements('}')
      return unknown
    }
    return this.#take(number) ?? unknown
  }

  /** `[Type]`, with the parentheses of an attribute, and perhaps `::Member`. */
  #type(): string {
    const name = this.#take(/\[[\w.]+(?:\[[\w.,[\]\s]*\]|\[\])*/y)
    if (name === undefined) {
      this.#at += 1
      this.#statements(']')
      this.#sink.unread()
      return unknown
    }
    this.#take(blank)
    const isAttribute = this.#peek() === '('
    if (isAttribute) this.#group()
    this.#skip()
    if (this.#take(/\]/y) === undefined) this.#sink.unread()
    const plain = name.slice(1).replace(/\[.*$/s, '')
    if (isAttribute) return ''
    const member = this.#text.startsWith('::', this.#at) ? this.#member(2) : undefined
    this.#sink.type(plain, member)
    return member === undefined ? '' : unknown
  }

  /** Reads `.Name` or `::Name` and the arguments behind it. A name made at run time is `unknown`. */
  #member(signs: number): string {
    this.#at += signs
    const name = this.#take(/\w+/y)
    if (name === undefined) this.#primary()
    if (this.#peek() === '(') this.#group()
    return name ?? unknown
  }

  /** What follows a value at once: `.Name`, `.Name(...)`, `::Name`, `[0]`. Returns whether anything did. */
  #accesses(): boolean {
    for (let found = false; ; found = true) {
      const next = this.#peek()
      if (this.#text.startsWith('::', this.#at)) this.#sink.member(this.#member(2))
      else if (next === '.' && /[\w"'$(]/.test(this.#peek(1))) this.#sink.member(this.#member(1))
      else if (next === '[') {
        this.#at += 1
        this.#statements(']')
      } else return found
    }
  }

  /** Returns the text if it is one constant, or several joined by `+`; otherwise a mark. */
  #expression(): string {
    let value: string | undefined
    let joined = true
    let name: string | undefined
    for (;;) {
      this.#take(blank)
      const next = this.#peek()
      if (next === '' || /[\n\r;|&)}\]]/.test(next)) break
      if (/[$"'(@[{\d\u2018-\u201f]/.test(next)) {
        const start = this.#at
        name = next === '$' && this.#peek(1) !== '(' ? this.#nameAhead() : undefined
        const one = this.#primary()
        // What follows the type of a cast, as in `[string][char]65`, is no index.
        const isType = next === '[' && one === ''
        const accessed = !isType && this.#accesses()
        if (accessed) name = undefined
        const known = accessed ? unknown : one
        if (!isType) value = value === undefined ? known : joined ? value + known : unknown
        joined = false
        // After the block of `if` or `foreach` a new statement may begin on the same line.
        if (next === '{' && !accessed) break
        if (this.#at === start) break
        continue
      }
      if (this.#redirected()) continue
      const found = this.#take(operator)
      if (found === undefined) break
      if (/^([-+*/%]|\?\?)?=$/.test(found)) return this.#assignment(name, found)
      joined = found === '+'
      if (!joined) value = unknown
      this.#take(lines)
    }
    return value ?? unknown
  }

  #nameAhead(): string | undefined {
    const before = this.#at
    const found = this.#variable()
    this.#at = before
    return found
  }

  #assignment(name: string | undefined, sign: string): string {
    this.#take(lines)
    const value = this.#pipeline()
    if (name !== undefined) this.#sink.assign(name, sign === '=' ? value : unknown)
    return value
  }
}
