import { getHeapStatistics } from 'node:v8'
import type { Json, JsonObject } from '../../../policy/types.ts'
import { byteCache, type ByteCache } from '../../../shared/byte-cache.ts'
import { LoadBudget } from './load-budget.ts'
import { SharedValues } from './shared-values.ts'
import type { RunSnapshot } from './run-snapshot.ts'
import type { FrozenVersion } from './version-cache.ts'

/**
 * The caches that a process has for runs. A cached value never changes. A value that a cache has dropped is read again.
 */
export interface RunCaches {
  readonly versions: ByteCache<FrozenVersion>
  readonly snapshots: ByteCache<RunSnapshot>
  /** The outputs of finished steps. The key is `RUN/STEP`. */
  readonly outputs: SharedValues<Json>
  /** Large inputs. The key is the run's id. Small inputs are in `snapshots`. */
  readonly inputs: SharedValues<JsonObject>
  /** Stored sizes of outputs in bytes. The key is `RUN/STEP`. */
  readonly outputSizes: ByteCache<number>
  /** Memory for the values that this process loads at the same time. */
  readonly loads: LoadBudget
  /**
   * Memory for large answers of external services that this process reads at the same time. This budget is separate
   * from `loads`, because the call that reads an answer may already hold a permit of `loads`. Such a call must not wait
   * for a second permit of the same budget.
   */
  readonly answers: LoadBudget
}

const mebibyte = 1024 ** 2

export function createRunCaches(): RunCaches {
  const quarter = getHeapStatistics().heap_size_limit / 4
  return {
    // Enough for hundreds of ordinary workflow versions, or for dozens of the largest versions.
    versions: byteCache(32 * mebibyte),
    // Enough for thousands of runs with small inputs.
    snapshots: byteCache(16 * mebibyte),
    outputs: new SharedValues(64 * mebibyte),
    inputs: new SharedValues(16 * mebibyte),
    outputSizes: byteCache(mebibyte),
    loads: new LoadBudget(quarter),
    answers: new LoadBudget(quarter),
  }
}
