/** Lets callers who need the same result at the same time share one execution. */
export interface Joined {
  /**
   * Returns the result of `work`. `work` must call `begins` immediately before it reads data. Until then, all calls of
   * `join` with the same key share one execution. A later call starts a new execution. So every caller gets data that
   * was read after its own call of `join`. If `work` throws, all callers that share the execution get the error. Use
   * each key for only one kind of result.
   */
  join<T>(key: string, work: (begins: () => void) => Promise<T>): Promise<T>
}

export function createJoined(): Joined {
  const open = new Map<string, Promise<unknown>>()
  return {
    join<T>(key: string, work: (begins: () => void) => Promise<T>): Promise<T> {
      const present = open.get(key)
      if (present !== undefined) return present as Promise<T>
      const close = (): void => {
        if (open.get(key) === made) open.delete(key)
      }
      const made = Promise.resolve()
        .then(() => work(close))
        .finally(close)
      open.set(key, made)
      return made
    },
  }
}
