/** Callers who need the same result at the same time share one execution. */
export interface Joined {
  /**
   * `work` must call `begins` immediately before it reads data. Until then, all calls with the key share one execution,
   * and its error; later ones start a new one. So every caller gets data that was read after its own call. A key is for
   * one kind of result.
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
