import { LRUCache } from 'lru-cache'

/** May be used for so many seconds from now on. */
export interface Minted {
  readonly token: string
  readonly freshSeconds: number
}

/** For tokens that this process can request anew. Calls at the same time share one request. */
export interface TokenCache {
  /** A failed request is not cached. */
  take(
    name: string,
    mint: () => Promise<Minted>,
  ): Promise<{ readonly token: string; readonly isNew: boolean }>
  /** After a service has refused it. Does nothing if the cache has another by now. */
  drop(name: string, token: string): void
}

export function createTokenCache(): TokenCache {
  const cache = new LRUCache<string, string, () => Promise<Minted>>({
    max: 2_000,
    async fetchMethod(_name, _stale, { options, context: mint }) {
      const { token, freshSeconds } = await mint()
      // A `ttl` of 0 would mean that the token never expires.
      options.ttl = Math.max(freshSeconds * 1_000, 1)
      return token
    },
    ignoreFetchAbort: true,
  })
  return {
    async take(name, mint) {
      const isNew = cache.peek(name) === undefined
      return { token: await cache.forceFetch(name, { context: mint }), isNew }
    },
    drop(name, token) {
      if (cache.peek(name) === token) cache.delete(name)
    },
  }
}
