import { LRUCache } from 'lru-cache'
import { byteCache, type ByteCache } from '../../shared/byte-cache.ts'

export interface SessionCache {
  /** By the person's id and the client's session id. A session never changes its organization. */
  readonly organizations: ByteCache<string>
  /** When this process last noted an organization's storage limit in the audit log, in epoch milliseconds. */
  readonly limitNotedAt: LRUCache<string, number>
}

export const createSessionCache = (): SessionCache => ({
  organizations: byteCache(8 * 1024 * 1024),
  limitNotedAt: new LRUCache({ max: 10_000 }),
})
