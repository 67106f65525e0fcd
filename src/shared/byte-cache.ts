import { LRUCache } from 'lru-cache'

/**
 * Estimated bytes of an entry in addition to its value. They cover the key, and the cache's own data about the entry.
 */
const entryBytes = 512

/**
 * A cache of the most recently used values, with a limit in bytes. It is for values that never change, so no entry is
 * ever out of date. If the cache has dropped a value, the caller reads it again.
 */
export type ByteCache<Value extends {}> = LRUCache<string, Value>

/** Creates a cache of at most `maxBytes`. A value larger than a quarter of `maxBytes` is not stored. */
export const byteCache = <Value extends {}>(maxBytes: number): ByteCache<Value> =>
  new LRUCache({ maxSize: maxBytes, maxEntrySize: Math.floor(maxBytes / 4) })

/** Returns the size of an entry in the form that the cache expects. `valueBytes` is the estimated size of the value. */
export const counted = (valueBytes: number): { readonly size: number } => ({ size: entryBytes + valueBytes })

/**
 * Estimates the memory that a JSON value takes, in bytes. The estimate is deliberately too high. The length of the JSON
 * text would be too low: a text of mostly brackets takes many times its length in memory. The function is not
 * recursive, because an output may be nested deeper than the stack allows.
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

/** Whether V8 stores the text with two bytes per character. */
const isWide = (text: string): boolean => /[\u0100-\uffff]/.test(text)
