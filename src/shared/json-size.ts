const [quote, backslash, comma, colon, list, object] = [0x22, 0x5c, 0x2c, 0x3a, 0x5b, 0x7b]

/** One output, input or value of the memory may contain at most this many JSON values. */
export const mostValues = 200_000
/** One output, input or value of the memory may take at most this many bytes of the process's memory. */
export const mostHeapBytes = 64 * 1024 * 1024

/**
 * Estimated memory, in bytes, for a value and for a field, in addition to its text. The estimate is deliberately too
 * high.
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
 * The number of values (lists, objects, and values separated by commas), and the estimated memory of all of them in
 * bytes. Stops counting above `most` values.
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
 * The maximum memory, in bytes, for parsing a JSON text and keeping its value. It covers the text, its strings, and up
 * to `mostValues` values. `octets` is the length of the text in bytes, as PostgreSQL counts them.
 */
export function mostCostOf(octets: number): number {
  return 4 * octets + Math.min(octets * 20, mostValues * (valueBytes + fieldBytes))
}
