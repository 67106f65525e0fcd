/** What an entry takes beside its value: the key, its places in the maps, the record around it. In bytes, about. */
const entryBytes = 512

/**
 * Keeps the values that were used last, up to `maxBytes` in all. For what never changes: nothing is ever out of date,
 * and what was forgotten is read again. A value of more than a quarter of the room is not kept.
 */
export class Recent<Value> {
  readonly #maxBytes: number
  readonly #entries = new Map<string, { readonly value: Value; readonly bytes: number }>()
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Number of values kept. */
  get size(): number {
    return this.#entries.size
  }

  get(key: string): Value | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry.value
  }

  /** `valueBytes`: as `heapBytes` says. */
  set(key: string, value: Value, valueBytes: number): void {
    this.delete(key)
    const bytes = entryBytes + valueBytes
    if (bytes > this.#maxBytes / 4) return
    this.#entries.set(key, { value, bytes })
    this.#bytes += bytes
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#maxBytes) break
      this.delete(oldest)
    }
  }

  delete(key: string): void {
    this.#bytes -= this.#entries.get(key)?.bytes ?? 0
    this.#entries.delete(key)
  }
}

/**
 * What a JSON value takes in memory, in bytes, rather too much than too little: many times the length of its text where
 * that is all brackets. Without recursion: outputs may be nested deeper than the stack is.
 */
export function heapBytes(json: unknown): number {
  let bytes = 0
  const open: unknown[] = [json]
  while (open.length > 0) {
    const value = open.pop()
    if (typeof value === 'string') bytes += 24 + value.length * (isWide(value) ? 2 : 1)
    else if (typeof value !== 'object' || value === null) bytes += 16
    else if (Array.isArray(value)) {
      bytes += 32 + 8 * value.length
      for (const each of value) open.push(each)
    } else {
      bytes += 64
      for (const [name, each] of Object.entries(value)) {
        bytes += 32 + name.length
        open.push(each)
      }
    }
  }
  return bytes
}

/** Whether V8 keeps it with two bytes a character. */
const isWide = (text: string): boolean => /[\u0100-\uffff]/.test(text)
