import type { Json, JsonObject } from '../../../policy/types.ts'
import { byteCache, type ByteCache, counted } from '../../../shared/byte-cache.ts'
import { FairShare } from '../../limits/fair-share.ts'
import { limits } from '../../limits/shares.ts'
import type { RunSnapshot } from './run-snapshot.ts'
import type { FrozenVersion } from './version-cache.ts'

/** A cached value never changes. A value that was dropped is read again. */
export interface RunCaches {
  readonly versions: ByteCache<FrozenVersion>
  readonly snapshots: ByteCache<RunSnapshot>
  /** The key is `RUN/STEP`. */
  readonly outputs: SharedValues<Json>
  /** Only large inputs, by the run's id. Small inputs are in `snapshots`. */
  readonly inputs: SharedValues<JsonObject>
  /** In bytes. The key is `RUN/STEP`. */
  readonly outputSizes: ByteCache<number>
  readonly loads: FairShare
  readonly answers: FairShare
}

const mebibyte = 1024 ** 2

export function createRunCaches(): RunCaches {
  return {
    // Enough for hundreds of ordinary workflow versions, or for dozens of the largest versions.
    versions: byteCache(32 * mebibyte),
    // Enough for thousands of runs with small inputs.
    snapshots: byteCache(16 * mebibyte),
    outputs: new SharedValues(64 * mebibyte),
    inputs: new SharedValues(16 * mebibyte),
    outputSizes: byteCache(mebibyte),
    loads: new FairShare(limits.load),
    answers: new FairShare(limits.answer),
  }
}

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
