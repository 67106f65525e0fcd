interface Level {
  /** The keys that were already read in this object. Is null for a list. */
  readonly keys: Set<string> | null
  /** The current key or index. */
  at: string | number
}

const [quote, backslash] = [0x22, 0x5c]

/** A position in a JSON text where `JSON.parse` silently loses information. */
export interface JsonFlaw {
  readonly kind: 'repeated' | 'inexact'
  readonly path: readonly (string | number)[]
}

/**
 * Returns the first ambiguity in a JSON text, or null. `text` must be valid JSON.
 * - `repeated`: an object has two equal keys. `JSON.parse` keeps the last one, while other parsers keep the first. A
 *   rule could mean one thing to its reviewer and another to this service.
 * - `inexact`: a whole number is beyond ±(2^53-1), so `JSON.parse` rounds it. A payment to account 9007199254740993
 *   would become a payment to 9007199254740992. Numbers with a point or an exponent are not reported, because every
 *   parser rounds them.
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

/** The size of a JSON text. It is counted before the text is parsed. */
export interface JsonSize {
  /** Number of lists, objects and other values. An empty list or object counts as two values. */
  readonly values: number
  readonly fields: number
  /** The deepest level of nested lists and objects. */
  readonly depth: number
  /** True if a number has so many digits that `JSON.parse` may round it. */
  readonly hasLongNumbers: boolean
}

/**
 * Counts the size of a text, in much less time than parsing takes. Stops when there are more than `mostValues` values,
 * or more than `deepest` levels. If the text is not JSON, the result has no meaning.
 */
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

/**
 * Returns whether a JSON text has more than `most` different field names. Names are compared as they are written. So
 * `"a"` and `"\u0061"` count as two names, although they mean the same.
 */
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

/** Returns the key without quotes and escapes. Example: `"\u0061"` becomes `a`. */
const stringOf = (written: string): string =>
  written.includes('\\') ? (JSON.parse(written) as string) : written.slice(1, -1)

/** Returns the index after the closing quote of the string that begins at `start`. */
function endOfString(text: string, start: number): number {
  let place = start + 1
  while (place < text.length && text.charCodeAt(place) !== quote)
    place += text.charCodeAt(place) === backslash ? 2 : 1
  return place + 1
}

const isDigit = (sign: number): boolean => sign >= 0x30 && sign <= 0x39

/** Returns the index after the number whose first digit is at `start`. */
function endOfNumber(text: string, start: number): number {
  let place = start + 1
  for (; place < text.length; place += 1) {
    const sign = text.charCodeAt(place)
    if (!isDigit(sign) && sign !== 0x2e && (sign | 0x20) !== 0x65 && sign !== 0x2b && sign !== 0x2d) break
  }
  return place
}

/** Number of digits in 2^53. `JSON.parse` reads every whole number with fewer digits exactly. */
const shortestInexact = 16

const isInexact = (number: string): boolean => /^\d+$/.test(number) && !Number.isSafeInteger(Number(number))
