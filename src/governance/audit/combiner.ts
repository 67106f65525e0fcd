import type { Db } from '../../db/schema/index.ts'
import {
  type BatchKind,
  type Operation,
  type PolicyVersion,
  LaneTransactions,
  type Committed,
  type TransactionOptions,
} from './lane-transactions.ts'
import type { ChainTx } from './chain-tx.ts'
import type { CommitPoint } from './commit-points.ts'
import { loadPolicy, type LoadedPolicy, type LoadPolicy } from './policy-cache.ts'
import { runInTurn } from '../../shared/time-slices.ts'
import { answerTo, isRetryableAlone, reasonOf } from './commit-failures.ts'
import type { EntryDraft } from './entry.ts'

/**
 * The only interface that appends to an organization's chain. Each process has one lane per organization. A lane has at
 * most one transaction in flight.
 *
 * A lane is *draining* while operations wait or a transaction is in flight. Otherwise it is *idle*. Operations that
 * arrive while a transaction is in flight wait, and share the next transaction. Each transaction locks `chain_head`
 * before anything else. Under the lock, the transaction reloads the policy if the policy's version has changed. Then it
 * runs the operations in the order of their arrival, writes, and commits. The callers get their answers only after the
 * commit. Neighbouring operations of one family (lane-transactions.ts) read and write together. Each operation sees the effects of
 * earlier operations. If an operation changes the policy, the operations after it wait for the next transaction.
 *
 * If an operation makes its batch fail or take too long, the batch runs again in two halves, in order. So in the end
 * only the bad operation fails, and the other operations still share commits.
 *
 * If the answer to a COMMIT is lost, the lane locks `chain_head` again. It gets the lock only when the lost transaction
 * has ended. The lane then looks for the batch's last entry in the chain. If the lane finds the entry, the batch was
 * saved. If the entry is missing, the batch was not saved, and the callers get an error.
 */
export interface Combiner {
  /** Runs one operation with its own statements. If the transaction fails, `work` may run again. */
  run<R>(organizationId: string, point: CommitPoint, work: (tx: ChainTx) => Promise<R>): Promise<R>
  /** Runs an operation that shares its reads and writes with neighbouring operations of its family (lane-transactions.ts). */
  join<Op, Shared, R>(organizationId: string, batch: BatchKind<Op, Shared, R>, op: Op): Promise<R>
  /**
   * Returns the present load. `waiting` is the number of operations that wait for a transaction. `busy` is the number
   * of organizations whose lane is draining.
   */
  load(): { readonly waiting: number; readonly busy: number }
  /**
   * Returns the policy of this version. Use this method if you have read the version without the chain's lock. If
   * memory does not have this version, `load` reads the policy. The policy then stays in memory.
   */
  policy(organizationId: string, version: PolicyVersion, load: LoadPolicy): Promise<LoadedPolicy>
}

export interface CombinerOptions extends LaneOptions {
  /**
   * The limits of the compiled policies in memory: at most `count` organizations, and at most `bytes` bytes. Above
   * either limit, the process drops the policies of idle organizations.
   */
  readonly kept?: { readonly count: number; readonly bytes: number }
}

const defaultKept = { count: 1_000, bytes: 128 * 1024 * 1024 }

export function createCombiner(options: CombinerOptions): Combiner {
  const lanes = new LaneCache<Lane>(options.kept ?? defaultKept)
  const events = { onLoaded: () => lanes.trim(), onIdle: (lane: Lane) => lanes.becameIdle(lane) }
  const laneOf = (organizationId: string): Lane =>
    lanes.laneOf(organizationId, () => new Lane(organizationId, options, events))
  const submit = <R>(
    organizationId: string,
    entry: Omit<WaitingOperation, 'resolve' | 'reject'>,
  ): Promise<R> =>
    new Promise<R>((resolve, reject) => {
      laneOf(organizationId).submit({ ...entry, resolve: resolve, reject })
    })
  return {
    run: (organizationId, point, work) => submit(organizationId, { point, kind: null, op: null, work }),
    join: (organizationId, kind, op) =>
      submit(organizationId, {
        point: kind.point,
        kind: kind,
        op,
        work: null,
      }),
    load: () => {
      let [waiting, busy] = [0, 0]
      for (const lane of lanes.all()) {
        waiting += lane.waiting
        if (!lane.idle) busy += 1
      }
      return { waiting, busy }
    },
    policy: (organizationId, version, load) => laneOf(organizationId).policy(version, load),
  }
}

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
class Lane {
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

/** The state that this process keeps for one organization. */
export interface CachedLane {
  /** True if no operation waits or runs. Only an idle lane can be dropped. */
  readonly idle: boolean
  /** Estimated bytes in memory. */
  readonly bytes: number
}

/**
 * Keeps the lanes of organizations. If there are more than `count` lanes, drops idle lanes. The least recently used
 * lanes are dropped first. If all lanes together take more than `bytes`, drops idle lanes, the largest first.
 */
export class LaneCache<Lane extends CachedLane> {
  readonly #limits: { readonly count: number; readonly bytes: number }
  readonly #lanes = new Map<string, Lane>()
  /** Large lanes that could not be dropped because they were busy. When one of them becomes idle, `trim` runs again. */
  readonly #tooLarge = new Set<Lane>()

  constructor(limits: { readonly count: number; readonly bytes: number }) {
    this.#limits = limits
  }

  get size(): number {
    return this.#lanes.size
  }

  all(): Iterable<Lane> {
    return this.#lanes.values()
  }

  /** Returns the organization's lane. If there is no lane, makes one with `make`. */
  laneOf(organizationId: string, make: () => Lane): Lane {
    const known = this.#lanes.get(organizationId)
    if (known === undefined) this.#trim(this.#limits.count - 1)
    else this.#lanes.delete(organizationId)
    const lane = known ?? make()
    this.#lanes.set(organizationId, lane)
    return lane
  }

  /** Drops idle lanes until both limits are met, as far as possible. Call this method when a lane has grown. */
  trim(): void {
    this.#trim(this.#limits.count)
  }

  /** Call this method when a lane has nothing more to do. If the lane was too large before, it may be dropped now. */
  becameIdle(lane: Lane): void {
    if (this.#tooLarge.delete(lane)) this.trim()
  }

  #trim(mostLanes: number): void {
    for (const [id, lane] of this.#lanes) {
      if (this.#lanes.size <= mostLanes) break
      if (lane.idle) this.#lanes.delete(id)
    }
    let bytes = 0
    for (const lane of this.#lanes.values()) bytes += lane.bytes
    if (bytes <= this.#limits.bytes) return
    for (const [id, lane] of [...this.#lanes].toSorted(([, a], [, b]) => b.bytes - a.bytes)) {
      if (bytes <= this.#limits.bytes) return
      bytes -= lane.bytes
      if (lane.idle) this.#lanes.delete(id)
      else this.#tooLarge.add(lane)
    }
  }
}

/**
 * Returns the present policy, read from one snapshot without the chain's lock. Use it for previews and tests of rules,
 * but not to decide a call.
 */
export function policySnapshot(
  { db, combiner }: { readonly db: Db; readonly combiner: Combiner },
  organizationId: string,
): Promise<LoadedPolicy> {
  return db
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute(async (trx) => {
      const head = await trx
        .selectFrom('chain_head')
        .select(['policy_version', 'frozen'])
        .where('organization_id', '=', organizationId)
        .executeTakeFirstOrThrow()
      return combiner.policy(organizationId, head, (former) => loadPolicy(trx, organizationId, head, former))
    })
}
