import { LRUCache } from 'lru-cache'
import { byteCache, type ByteCache } from '../../shared/byte-cache.ts'

/** A process's caches of agents' sessions. */
export interface SessionCache {
  /**
   * The organization of each agent session, by person and the client's session id. A session never changes its
   * organization.
   */
  readonly organizations: ByteCache<string>
  /**
   * The last time when this process wrote to the audit log that an organization is over its storage limit, in epoch
   * milliseconds.
   */
  readonly limitNotedAt: LRUCache<string, number>
}

export const createSessionCache = (): SessionCache => ({
  organizations: byteCache(8 * 1024 * 1024),
  limitNotedAt: new LRUCache({ max: 10_000 }),
})
