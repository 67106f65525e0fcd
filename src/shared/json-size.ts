const [quote, backslash, comma, colon, list, object] = [0x22, 0x5c, 0x2c, 0x3a, 0x5b, 0x7b]

/**
 * An output, an input, an answer of a service, and a value of `memory_get` may each contain at most this many JSON
 * values.
 */
export const mostValues = 200_000
/**
 * An output, an input, an answer of a service, and a value of `memory_get` may each take at most this many bytes of the
 * process's memory.
 */
export const mostHeapBytes = 64 * 1024 * 1024

/**
 * Estimated bytes of memory for each value, and for each field of an object. The text is counted separately. Both
 * estimates are deliberately too high.
 */
const [valueBytes, fieldBytes] = [72, 48]

/**
 * True if a JSON text has more values than `mostValues`, or would take more than `mostHeapBytes` in memory after
 * parsing. The check takes much less time than parsing. The result has no meaning for a text that is not JSON.
 */
export const isTooLarge = (text: string): boolean => !new JsonSize().add(text)

/** Counts the values and the memory of several JSON texts that are in memory together. */
export class JsonSize {
  #values = 0
  #bytes = 0

  /** Adds a text. Returns false once all texts together are too large. */
  add(text: string): boolean {
    const cost = costOf(text, mostValues - this.#values)
    this.#values += cost.values
    this.#bytes += cost.bytes
    return this.#values <= mostValues && this.#bytes <= mostHeapBytes
  }
}

/**
 * Returns the number of values and their estimated memory in bytes. The number is one, plus one for each list, object
 * and comma. Stops counting above `most` values.
 */
function costOf(text: string, most: number): { values: number; bytes: number } {
  let [values, fields] = [1, 0]
  for (let place = 0; place < text.length && values <= most; place += 1) {
    const sign = text.charCodeAt(place)
    if (sign === quote) place = closingQuote(text, place)
    else if (sign === colon) fields += 1
    else if (sign === comma || sign === list || sign === object) values += 1
  }
  const characterBytes = /[\u0100-\uffff]/.test(text) ? 2 : 1
  return { values, bytes: values * valueBytes + fields * fieldBytes + text.length * characterBytes }
}

function closingQuote(text: string, start: number): number {
  let place = start + 1
  while (place < text.length && text.charCodeAt(place) !== quote)
    place += text.charCodeAt(place) === backslash ? 2 : 1
  return place
}

/**
 * Returns the maximum memory, in bytes, for a JSON text and its parsed value together. The value counts with its
 * strings and with at most `mostValues` values. `octets` is the length of the text in bytes, as PostgreSQL counts them.
 */
export function mostCostOf(octets: number): number {
  return 4 * octets + Math.min(octets * 20, mostValues * (valueBytes + fieldBytes))
}
