import { sql } from 'kysely'
import type { ChainReader, ChainTx } from './chain-tx.ts'
import type { CommitPoint } from './commit-points.ts'

/**
 * A kind of operation. Operations of one kind can share a transaction. One read and one write then serve all of them.
 */
export interface BatchKind<Op, Shared, R> {
  readonly point: CommitPoint
  /**
   * Kinds with the same family have the same `load` and `write`. The operations of one family are read and written
   * together.
   */
  readonly family?: object
  /**
   * Estimates how many characters the operation writes; 0 if the kind has no estimate. The sum over the operations
   * limits how many of them share a transaction.
   */
  weight?(op: Op): number
  /**
   * Reads everything that these operations need, in one statement. For the first operations of a transaction, this
   * statement is sent together with the statement that takes the lock.
   */
  load(reader: ChainReader, ops: readonly Op[]): Promise<Shared>
  /**
   * Decides one operation. The transaction decides its operations in order. `apply` changes only `shared` and the
   * buffers of `tx`.
   */
  apply(tx: ChainTx, shared: Shared, op: Op): R
  /**
   * Sends the changes that `apply` left in `shared`, several rows in one statement. If a statement fails, the commit
   * fails.
   */
  write(tx: ChainTx, shared: Shared): void
}

/** One operation that waits for a transaction of its organization. */
export interface Operation {
  readonly point: CommitPoint
  /** null if `work` sends its own statements. */
  readonly kind: BatchKind<unknown, unknown, unknown> | null
  readonly op: unknown
  readonly work: ((tx: ChainTx) => Promise<unknown>) | null
}

/**
 * Runs the operations in order; neighbouring operations of one family share their reads and writes. Stops after an
 * operation that changed the policy: the next transaction runs the other operations under the new policy. Returns one
 * result for each operation that ran.
 */
export async function runBatch(
  tx: ChainTx,
  batch: readonly Operation[],
  first: Segment | null,
): Promise<unknown[]> {
  const results: unknown[] = []
  let planning = planningOf(batch[0])
  while (results.length < batch.length && !tx.isPolicyChanged) {
    const wanted = planningOf(batch[results.length])
    if (wanted !== planning) void tx.send(sql`select set_config('plan_cache_mode', ${wanted}, true)`)
    planning = wanted
    const segment = results.length === 0 ? first : loadSegment(tx, batch, results.length)
    if (segment === null) {
      const { work } = batch[results.length] as Operation
      results.push(await (work as NonNullable<Operation['work']>)(tx))
      continue
    }
    const { kind, entries } = segment
    const shared = await segment.shared
    for (const entry of entries) results.push((entry.kind ?? kind).apply(tx, shared, entry.op))
    kind.write(tx, shared)
  }
  return results
}

/**
 * Returns the `plan_cache_mode` with which PostgreSQL plans the statements of an operation. Batches use a generic plan,
 * because planning takes longer than running the statement. An operation with its own statements uses `auto`, because
 * the planner may need the values of a statement to use a partial index.
 */
export const planningOf = (operation: Operation | undefined): 'force_generic_plan' | 'auto' =>
  operation?.kind == null ? 'auto' : 'force_generic_plan'

/** Neighbouring operations of one family. `shared` resolves to the data that these operations share. */
export interface Segment {
  readonly kind: NonNullable<Operation['kind']>
  readonly entries: readonly Operation[]
  readonly shared: Promise<unknown>
}

/**
 * Returns the neighbouring operations of one family from `start` on, and starts to read their shared data. Returns null
 * if the operation at `start` sends its own statements.
 */
export function loadSegment(reader: ChainReader, batch: readonly Operation[], start: number): Segment | null {
  const kind = batch[start]?.kind ?? null
  if (kind === null) return null
  const family = familyOf(kind)
  let end = start + 1
  while (end < batch.length && familyOf(batch[end]?.kind ?? null) === family) end += 1
  const entries = batch.slice(start, end)
  const shared = kind.load(
    reader,
    entries.map((entry) => entry.op),
  )
  // `runBatch` awaits this promise. If the transaction fails earlier, nobody awaits the promise. This line prevents an
  // unhandled rejection in that case.
  shared.catch(() => undefined)
  return { kind, entries, shared }
}

function familyOf(kind: Operation['kind']): object | null {
  return kind === null ? null : (kind.family ?? kind)
}
