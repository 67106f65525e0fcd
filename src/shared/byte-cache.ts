import { LRUCache } from 'lru-cache'

/** Bytes of an entry beside its value: its key and its places in the cache. An estimate. */
const entryBytes = 512

/**
 * A cache of the values that were used last, with a limit in bytes. It is for values that never change: none is ever out of date, and one that
 * was dropped is read again.
 */
export type ByteCache<Value extends {}> = LRUCache<string, Value>

/** A cache for `maxBytes` in all. A value of more than a quarter of them is not kept. */
export const byteCache = <Value extends {}>(maxBytes: number): ByteCache<Value> =>
  new LRUCache({ maxSize: maxBytes, maxEntrySize: Math.floor(maxBytes / 4) })

/** How much an entry counts in such a cache. `valueBytes` is as `heapBytes` gives it. */
export const counted = (valueBytes: number): { readonly size: number } => ({ size: entryBytes + valueBytes })

/**
 * An estimate of the memory that a JSON value takes, in bytes, deliberately too high. Text that consists mostly of
 * brackets takes many times its length. Not recursive, because outputs may be nested deeper than the stack.
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
