const [quote, backslash, comma, colon, list, object] = [0x22, 0x5c, 0x2c, 0x3a, 0x5b, 0x7b]

/** Most values, and bytes in memory, that one output, memory value or input may have. */
export const mostValues = 200_000
export const mostHeapBytes = 64 * 1024 * 1024

/** What a value and a field take in memory beside their text, in bytes, rather too much than too little. */
const [valueBytes, fieldBytes] = [72, 48]

/**
 * Whether a JSON text has more values than `mostValues`, or would take more than `mostHeapBytes` once it is read, for a
 * small part of the time that reading it takes. For a text that is no JSON the answer says nothing.
 */
export const isTooLarge = (text: string): boolean => !new JsonSize().add(text)

/** Counts several JSON texts that are kept together. */
export class JsonSize {
  #values = 0
  #bytes = 0

  /** False once they are too large together. */
  add(text: string): boolean {
    const cost = costOf(text, mostValues - this.#values)
    this.#values += cost.values
    this.#bytes += cost.bytes
    return this.#values <= mostValues && this.#bytes <= mostHeapBytes
  }
}

/** Lists, objects and what commas part, and the bytes of all; stops counting at more values than `most`. */
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
 * What JSON of so many bytes, as PostgreSQL counts them, takes at most while it is read and kept: the text, its strings,
 * and its values up to `mostValues`.
 */
export function mostCostOf(octets: number): number {
  return 4 * octets + Math.min(octets * 20, mostValues * (valueBytes + fieldBytes))
}
