const [quote, backslash, comma, colon, list, object] = [0x22, 0x5c, 0x2c, 0x3a, 0x5b, 0x7b]

/** The limit of an output, an input, an answer of a service, and a value of `memory_get`. */
export const mostValues = 200_000
export const mostHeapBytes = 64 * 1024 * 1024

/** For each value, and each field of an object, without its text. Deliberately too many. */
const [valueBytes, fieldBytes] = [72, 48]

/** In much less time than parsing. Meaningless for what is no JSON. */
export const isTooLarge = (text: string): boolean => !new JsonSize().add(text)

/** Counts several JSON texts that are in memory together. */
export class JsonSize {
  #values = 0
  #bytes = 0

  /** False once all texts together are too large. */
  add(text: string): boolean {
    const cost = costOf(text, mostValues - this.#values)
    this.#values += cost.values
    this.#bytes += cost.bytes
    return this.#values <= mostValues && this.#bytes <= mostHeapBytes
  }
}

/** One value, plus one for each list, object and comma. Stops above `most`. */
function costOf(text: string, most: number): { values: number; bytes: number } {
  let [values, fields] = [1, 0]
  for (let at = 0; at < text.length && values <= most; at += 1) {
    const sign = text.charCodeAt(at)
    if (sign === quote) at = closingQuote(text, at)
    else if (sign === colon) fields += 1
    else if (sign === comma || sign === list || sign === object) values += 1
  }
  const characterBytes = /[\u0100-\uffff]/.test(text) ? 2 : 1
  return { values, bytes: values * valueBytes + fields * fieldBytes + text.length * characterBytes }
}

function closingQuote(text: string, start: number): number {
  let at = start + 1
  while (at < text.length && text.charCodeAt(at) !== quote) at += text.charCodeAt(at) === backslash ? 2 : 1
  return at
}

/** The most memory of a JSON text and its parsed value together. `octets` are its bytes, as PostgreSQL counts them. */
export function mostCostOf(octets: number): number {
  return 4 * octets + Math.min(octets * 20, mostValues * (valueBytes + fieldBytes))
}
