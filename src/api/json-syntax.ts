/** The first position where a text stops being valid JSON. Example: in `[1,]` this is the position of `]`. */
export interface JsonError {
  /** `line` and `column` count from 1. A column is one UTF-16 code unit, as in editors. */
  readonly line: number
  readonly column: number
  /** A description of the characters that JSON allows at this position. */
  readonly expected: string
  readonly isAtEnd: boolean
}

type State = 'value' | 'element' | 'name' | 'first name' | 'colon' | 'next' | 'end'

/** Returns the syntax error of a text, or null if the text is JSON. Reads each character once, and builds no values. */
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
  /** The closing mark of each list or object that is still open. The innermost one is the last. */
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

  /** The character at `#at`. Is an empty text at the end. */
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
    return sign === '-' || isDigit(sign) ? this.#number() : this.#flaw(this.#wanted())
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

  /** Reads digits. Returns true if there is at least one. */
  #digits(): boolean {
    const start = this.#at
    while (isDigit(this.#sign)) this.#at += 1
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

const isDigit = (sign: string): boolean => sign >= '0' && sign <= '9'
