import { LRUCache } from 'lru-cache'
import { byteCache, type ByteCache } from '../../shared/byte-cache.ts'

/** A process's caches of agents' sessions. */
export interface SessionCache {
  /** Organizations of sessions, by person and session. A session never changes its organization. */
  readonly organizations: ByteCache<string>
  /** The last time when the audit log recorded that an organization was over its storage limit, in milliseconds. */
  readonly limitNotedAt: LRUCache<string, number>
}

export const createSessionCache = (): SessionCache => ({
  organizations: byteCache(8 * 1024 * 1024),
  limitNotedAt: new LRUCache({ max: 10_000 }),
})
