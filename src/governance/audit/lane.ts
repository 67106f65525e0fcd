import { runInTurn } from '../../shared/time-slices.ts'
import type { Operation } from './batch.ts'
import { answerTo, isRetryableAlone, reasonOf } from './commit-failures.ts'
import type { ChainTx } from './chain-tx.ts'
import type { EntryDraft } from './entry.ts'
import {
  LaneTransactions,
  type Committed,
  type PolicyVersion,
  type TransactionOptions,
} from './lane-transactions.ts'
import type { LoadedPolicy, LoadPolicy } from './policy-cache.ts'

export interface LaneOptions extends TransactionOptions {
  /** Called after each commit. */
  readonly onCommitted: (
    tx: Pick<
      ChainTx,
      'organizationId' | 'touched' | 'outboxWritten' | 'runEnded' | 'granted' | 'head' | 'base' | 'entries'
    >,
  ) => void
  /** Called after each commit with the drafts of its audit entries. */
  readonly onEntries?: (organizationId: string, drafts: readonly EntryDraft[]) => void
  /** Called when a transaction fails. */
  readonly onFailed?: (reason: ReturnType<typeof reasonOf>) => void
  /** A batch has at most this many operations. With 1, each operation has its own transaction. */
  readonly maxBatch?: number
}

export interface LaneEvents {
  /** Called after the lane has loaded another policy, because the lane may use more memory now. */
  onLoaded(): void
  /** Called when the lane has no more operations to run. */
  onIdle(lane: Lane): void
}

/** An operation, and the promise for its result. */
export interface WaitingOperation extends Operation {
  resolve(result: unknown): void
  reject(error: unknown): void
}

const defaultMaxBatch = 256
/**
 * A transaction runs at most this many operations that send their own statements. Such operations take longer than
 * other operations.
 */
const maxAlone = 24
/** The operations of one transaction write at most about this many characters. */
const mostWeight = 4 * 1024 * 1024

/** The queue of one organization's operations in this process. */
export class Lane {
  readonly #options: LaneOptions
  readonly #events: LaneEvents
  readonly #transactions: LaneTransactions
  readonly #queue: WaitingOperation[] = []
  #draining = false

  constructor(organizationId: string, options: LaneOptions, events: LaneEvents) {
    this.#options = options
    this.#events = events
    this.#transactions = new LaneTransactions(organizationId, options, events.onLoaded)
  }

  get idle(): boolean {
    return !this.#draining
  }

  get waiting(): number {
    return this.#queue.length
  }

  get bytes(): number {
    return this.#transactions.policyBytes
  }

  async policy(version: PolicyVersion, load: LoadPolicy): Promise<LoadedPolicy> {
    const { policy } = this.#transactions
    return this.#transactions.policyOf(version) ?? this.#transactions.keep(await load(policy))
  }

  submit(entry: WaitingOperation): void {
    this.#queue.push(entry)
    if (!this.#draining) void this.#drain()
  }

  async #drain(): Promise<void> {
    this.#draining = true
    while (this.#queue.length > 0) {
      // Other callbacks of this turn of the event loop may submit operations too. Let these callbacks run first, so
      // that their operations join the batch.
      await new Promise((resolve) => setImmediate(resolve))
      await this.#execute(this.#take())
    }
    this.#draining = false
    this.#events.onIdle(this)
  }

  /** Takes the operations of the next transaction from the front of the queue. */
  #take(): WaitingOperation[] {
    const max = this.#options.maxBatch ?? defaultMaxBatch
    let length = 0
    let [alone, weight] = [0, 0]
    for (const { kind, op } of this.#queue) {
      if (length === max || (kind === null && (alone += 1) > maxAlone)) break
      if ((weight += kind?.weight?.(op) ?? 0) > mostWeight && length > 0) break
      length += 1
    }
    return this.#queue.splice(0, length)
  }

  async #execute(batch: WaitingOperation[]): Promise<void> {
    let committed: Committed
    try {
      committed = await this.#transactions.commit(batch)
    } catch (error) {
      this.#options.onFailed?.(reasonOf(error))
      if (batch.length > 1 && isRetryableAlone(error)) {
        const middle = batch.length >> 1
        await this.#execute(batch.slice(0, middle))
        await this.#execute(batch.slice(middle))
        return
      }
      for (const entry of batch) entry.reject(answerTo(error))
      return
    }
    // The batch has committed. Nothing below may throw. An error would end `#drain` and leave `#draining` true, and the
    // lane would never run another operation.
    const { results } = committed
    batch.slice(0, results.length).forEach((entry, index) => runInTurn(() => entry.resolve(results[index])))
    this.#queue.unshift(...batch.slice(results.length))
    try {
      const { tx } = committed
      this.#options.onCommitted(tx)
      this.#options.onEntries?.(tx.organizationId, tx.drafts)
    } catch (error) {
      // Waiting requests and the relay also poll. So they notice the commit even without the notification, but later.
      process.emitWarning(error instanceof Error ? error : String(error))
    }
  }
}
