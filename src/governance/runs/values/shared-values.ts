import { counted, byteCache, type ByteCache } from '../../../shared/byte-cache.ts'

/** Callers share the promise while a value is made, and a dropped object that some caller still uses. */
export class SharedValues<Value> {
  readonly #recent: ByteCache<{ readonly value: Value }>
  readonly #making = new Map<string, Promise<Value>>()
  readonly #used = new Map<string, WeakRef<object>>()
  readonly #unused = new FinalizationRegistry<string>((key) => {
    if (this.#used.get(key)?.deref() === undefined) this.#used.delete(key)
  })

  constructor(maxBytes: number) {
    this.#recent = byteCache(maxBytes)
  }

  peek(key: string): Value | undefined {
    const kept = this.#recent.get(key)
    return kept === undefined ? (this.#used.get(key)?.deref() as Value | undefined) : kept.value
  }

  /** If `make` fails, all waiting callers get the error. */
  async get(key: string, make: () => Promise<{ value: Value; bytes: number }>): Promise<Value> {
    const known = this.peek(key)
    if (known !== undefined) return known
    const underWay = this.#making.get(key)
    if (underWay !== undefined) return underWay
    const making = make().then(({ value, bytes }) => {
      // If the key was deleted meanwhile, only the waiting callers get the value.
      if (this.#making.get(key) === making) this.#keep(key, value, bytes)
      return value
    })
    this.#making.set(key, making)
    try {
      return await making
    } finally {
      if (this.#making.get(key) === making) this.#making.delete(key)
    }
  }

  #keep(key: string, value: Value, bytes: number): void {
    this.#recent.set(key, { value }, counted(bytes))
    if (typeof value !== 'object' || value === null) return
    this.#used.set(key, new WeakRef(value))
    this.#unused.register(value, key)
  }

  delete(key: string): void {
    this.#recent.delete(key)
    this.#used.delete(key)
    this.#making.delete(key)
  }
}
