import { LRUCache } from 'lru-cache'

/** Beside the value: the key, and the cache's own data. */
const entryBytes = 512

/** For values that never change, so no entry is ever out of date. Callers read a dropped value again. */
export type ByteCache<Value extends {}> = LRUCache<string, Value>

/** A value larger than a quarter of `maxBytes` is not stored. */
export const byteCache = <Value extends {}>(maxBytes: number): ByteCache<Value> =>
  new LRUCache({ maxSize: maxBytes, maxEntrySize: Math.floor(maxBytes / 4) })

/** The size of an entry, as the cache expects it. */
export const counted = (valueBytes: number): { readonly size: number } => ({ size: entryBytes + valueBytes })

/** Deliberately too many: mostly brackets take many times their JSON. Not recursive, for deeply nested outputs. */
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

/** V8 then stores two bytes per character. */
const isWide = (text: string): boolean => /[\u0100-\uffff]/.test(text)
