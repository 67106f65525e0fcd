import { getHeapStatistics } from 'node:v8'
import type { Json, JsonObject } from '../../../policy/types.ts'
import { byteCache, type ByteCache } from '../../../shared/byte-cache.ts'
import { LoadBudget } from './load-budget.ts'
import { SharedValues } from './shared-values.ts'
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
  readonly loads: LoadBudget
  /** Not `loads`: a call with a permit of `loads` must not wait for a second permit of the same budget. */
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
