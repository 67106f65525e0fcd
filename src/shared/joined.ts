/** Lets callers who need the same result at the same time share one execution. */
export interface Joined {
  /**
   * Returns the result of `work`. Calls with the same key share one execution, as long as it has not called `begins`.
   * `work` calls `begins` immediately before it reads, so every caller gets a result that was read after its call. If
   * `work` throws, all its callers get the error. Use a key for one kind of result only.
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
