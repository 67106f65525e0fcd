import { RE2JS } from 're2js'
import { BudgetExceeded, type Budget } from '../budget.ts'
import type { Json } from '../types.ts'
import { listOf, making, spendOn, textOf, wholeOf, isList, type Shape } from './shape.ts'
import { areEqual } from './compare.ts'
import { asText } from './as-text.ts'

/** Characters of a regular expression. */
const longestPattern = 500
/** Characters of a text that a regular expression reads. */
const longestSearched = 256 * 1024

const one =
  (name: string, make: (text: string) => string): Shape['run'] =>
  ([text], { budget }) => {
    const given = textOf(text, name)
    making(given.length, name, budget)
    return make(given)
  }

const test =
  (name: string, holds: (text: string, part: string) => boolean): Shape['run'] =>
  ([text, part], { budget }) => {
    const [given, other] = [textOf(text, name), textOf(part, name)]
    budget.spend(1 + (given.length >> 6))
    return holds(given, other)
  }

export const texts = {
  text: {
    written: 'text(value)',
    gives: 'string',
    args: [1, 1],
    run: ([value = null], { budget }) => madeText(value, budget),
  },
  trim: { written: 'trim(text)', gives: 'string', args: [1, 1], run: one('trim', (text) => text.trim()) },
  lower: {
    written: 'lower(text)',
    gives: 'string',
    args: [1, 1],
    run: one('lower', (text) => text.toLowerCase()),
  },
  upper: {
    written: 'upper(text)',
    gives: 'string',
    args: [1, 1],
    run: one('upper', (text) => text.toUpperCase()),
  },
  replace: {
    written: 'replace(text, part, by)',
    gives: 'string',
    args: [3, 3],
    run([given, part, by], { budget }) {
      const [text, old, put] = [textOf(given, 'replace'), textOf(part, 'replace'), textOf(by, 'replace')]
      if (old === '') throw new TypeError('`replace` needs a part that is not empty')
      budget.spend(1 + (text.length >> 6))
      const pieces = text.split(old)
      budget.spend(pieces.length)
      making(text.length + (pieces.length - 1) * (put.length - old.length), 'replace', budget)
      return pieces.join(put)
    },
  },
  split: {
    written: 'split(text, separator)',
    gives: 'array',
    args: [2, 2],
    run([given, separator], { budget }) {
      const [text, between] = [textOf(given, 'split'), textOf(separator, 'split')]
      if (between === '') throw new TypeError('`split` needs a separator')
      budget.spend(1 + (text.length >> 6))
      const pieces = text.split(between)
      budget.spend(pieces.length)
      return pieces
    },
  },
  join: {
    written: "join(list, separator = '')",
    gives: 'string',
    args: [1, 2],
    run([list, separator = ''], { budget }) {
      const between = textOf(separator, 'join')
      const pieces = listOf(list, 'join').map((each) => madeText(each, budget))
      making(
        pieces.reduce((sum, { length }) => sum + length + between.length, 0),
        'join',
        budget,
      )
      return pieces.join(between)
    },
  },
  contains: {
    written: 'contains(text or list, part)',
    gives: 'boolean',
    args: [2, 2],
    run([whole = null, part = null], { budget }) {
      if (isList(whole)) return whole.some((each) => areEqual(each, part, budget))
      budget.spend(1 + (textOf(whole, 'contains').length >> 6))
      return textOf(whole, 'contains').includes(textOf(part, 'contains'))
    },
  },
  starts: {
    written: 'starts(text, beginning)',
    gives: 'boolean',
    args: [2, 2],
    run: test('starts', (text, part) => text.startsWith(part)),
  },
  ends: {
    written: 'ends(text, end)',
    gives: 'boolean',
    args: [2, 2],
    run: test('ends', (text, part) => text.endsWith(part)),
  },
  matches: {
    written: 'matches(text, regular expression)',
    gives: 'boolean',
    args: [2, 2],
    run: ([text, pattern], { budget }) => matcherOf(text, pattern, 'matches', budget).find(),
  },
  /** The first group, or all of the match if there is none; null without a match. */
  extract: {
    written: 'extract(text, regular expression)',
    gives: 'string',
    args: [2, 2],
    run([text, pattern], { budget }) {
      const matcher = matcherOf(text, pattern, 'extract', budget)
      return matcher.find() ? (matcher.group(matcher.groupCount() > 0 ? 1 : 0) ?? null) : null
    },
  },
  pad: {
    written: "pad(text, length, with = ' ')",
    gives: 'string',
    args: [2, 3],
    run([given, length, fill = ' '], { budget }) {
      const [text, most] = [textOf(given, 'pad'), wholeOf(length, 'pad')]
      making(Math.max(most, text.length), 'pad', budget)
      return text.padStart(most, textOf(fill, 'pad')).toWellFormed()
    },
  },
  truncate: {
    written: 'truncate(text, length)',
    gives: 'string',
    args: [2, 2],
    run([given, length], { budget }) {
      const [text, most] = [textOf(given, 'truncate'), wholeOf(length, 'truncate')]
      budget.spend(1 + (text.length >> 6))
      if (most < 1) throw new TypeError('`truncate` needs a length of at least 1')
      if (text.length <= most) return text
      return `${text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, '')}…`
    },
  },
} as const satisfies Readonly<Record<string, Shape>>

function madeText(value: Json, budget: Budget): string {
  spendOn(value, budget)
  return asText(value)
}

/** RE2: the time is linear in the text and in the size of the compiled program. */
function matcherOf(given: Json | undefined, written: Json | undefined, what: string, budget: Budget) {
  const [text, pattern] = [textOf(given, what), textOf(written, what)]
  if (pattern.length > longestPattern)
    throw new TypeError(`a regular expression has at most ${longestPattern} characters`)
  if (text.length > longestSearched)
    throw new TypeError(`\`${what}\` reads at most ${longestSearched / 1024} KiB: take a part of the text`)
  const compiled = budget.once(pattern, compiledOf)[0]
  if (compiled === undefined || compiled === null)
    throw new TypeError(`\`${what}\` needs a regular expression as RE2 takes it, without \`(?=\` and \`\\1\``)
  budget.spend(1 + ((compiled.programSize() * (1 + text.length)) >> 2))
  return compiled.matcher(text)
}

function compiledOf(pattern: string, budget: Budget): readonly (RE2JS | null)[] {
  budget.spend(100 + 50 * pattern.length)
  try {
    const compiled = RE2JS.compile(pattern)
    budget.spend(compiled.programSize())
    return [compiled]
  } catch (error) {
    if (error instanceof BudgetExceeded) throw error
    return [null]
  }
}
