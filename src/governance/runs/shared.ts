import { Recent } from '../recent.ts'

/**
 * Values that are made once in a process however many ask for them at the same time: while one is being made the others
 * wait for it, and one that somebody still uses is handed on also after the cache has forgotten it.
 */
export class Shared<Value> {
  readonly #recent: Recent<Value>
  readonly #making = new Map<string, Promise<Value>>()
  readonly #used = new Map<string, WeakRef<object>>()
  readonly #unused = new FinalizationRegistry<string>((key) => {
    if (this.#used.get(key)?.deref() === undefined) this.#used.delete(key)
  })

  constructor(maxBytes: number) {
    this.#recent = new Recent(maxBytes)
  }

  /** What is in memory. */
  peek(key: string): Value | undefined {
    const kept = this.#recent.get(key)
    return kept === undefined ? (this.#used.get(key)?.deref() as Value | undefined) : kept
  }

  /** From memory, or made by `make`, with what it takes in memory. A failure is everybody's who waited for it. */
  async get(key: string, make: () => Promise<{ value: Value; bytes: number }>): Promise<Value> {
    const known = this.peek(key)
    if (known !== undefined) return known
    const underWay = this.#making.get(key)
    if (underWay !== undefined) return underWay
    const making = make().then(({ value, bytes }) => {
      // Deleted meanwhile: whoever waits has it, nobody after them.
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
    this.#recent.set(key, value, bytes)
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
