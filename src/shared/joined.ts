/** Lets callers who need the same result at the same time share one execution. */
export interface Joined {
  /**
   * Returns the result of `work`. If an execution with the same key is under way and has not called `begins` yet, the
   * caller shares this execution. Otherwise a new one starts. `work` calls `begins` immediately before it reads. So
   * every caller gets a result that was read after its call of `join`. If `work` throws, all callers that share the
   * execution get the error. Use a key for one kind of result only.
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
