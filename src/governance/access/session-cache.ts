import { LRUCache } from 'lru-cache'
import { byteCache, type ByteCache } from '../../shared/byte-cache.ts'

/** A process's caches of agents' sessions. */
export interface SessionCache {
  /**
   * The organization of each agent session. The key consists of the person's id and the client's session id. A session
   * never changes its organization.
   */
  readonly organizations: ByteCache<string>
  /**
   * The time when this process last wrote an audit entry about an organization's storage limit, in epoch milliseconds.
   * The key is the id of the organization.
   */
  readonly limitNotedAt: LRUCache<string, number>
}

export const createSessionCache = (): SessionCache => ({
  organizations: byteCache(8 * 1024 * 1024),
  limitNotedAt: new LRUCache({ max: 10_000 }),
})
