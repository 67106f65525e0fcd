import type { Db } from '../../db/schema/index.ts'
import {
  type BatchKind,
  type Operation,
  type PolicyVersion,
  LaneTransactions,
  type Committed,
  type TransactionOptions,
  answerTo,
  isRetryableAlone,
  reasonOf,
} from './lane-transactions.ts'
import type { ChainTx } from './chain-tx.ts'
import type { CommitPoint } from './commit-points.ts'
import { loadPolicy, type LoadedPolicy, type LoadPolicy } from './policy-cache.ts'
import { runInTurn } from '../../shared/time-slices.ts'
import type { EntryDraft } from './entry.ts'

/**
 * The only way to append to an organization's chain. Each process has one lane per organization, with at most one
 * transaction in flight.
 *
 * A lane is *draining* while operations wait or a transaction is in flight, otherwise *idle*. Operations that arrive
 * meanwhile share the next transaction. It locks `chain_head` first, reloads the policy if its version has changed,
 * runs the operations in the order of their arrival, and commits. Callers get their answers only after the commit.
 * Neighbours of one family (lane-transactions.ts) read and write together. Each operation sees the effects of earlier
 * ones. Those behind a change of the policy wait for the next transaction.
 *
 * If an operation makes its batch fail or take too long, the batch runs again in two halves, in order, so that only the
 * bad operation fails in the end.
 *
 * If the answer to a COMMIT is lost, the lane locks `chain_head` again, which it gets only when the lost transaction
 * has ended, and looks for the batch's last entry. If it is missing, nothing was saved, and the callers get an error.
 */
export interface Combiner {
  /** Runs an operation with its own statements. If the transaction fails, `work` may run again. */
  run<R>(organizationId: string, point: CommitPoint, work: (tx: ChainTx) => Promise<R>): Promise<R>
  /** Runs an operation that shares reads and writes with its neighbours. */
  join<Op, Shared, R>(organizationId: string, batch: BatchKind<Op, Shared, R>, op: Op): Promise<R>
  /** `waiting` operations wait for a transaction, and `busy` lanes are draining. */
  load(): { readonly waiting: number; readonly busy: number }
  /** For a version that was read without the lock. `load` reads what memory does not have, and it stays there. */
  policy(organizationId: string, version: PolicyVersion, load: LoadPolicy): Promise<LoadedPolicy>
}

export interface CombinerOptions extends LaneOptions {
  /** Above either limit, compiled policies of idle organizations are dropped. */
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
  readonly onCommitted: (
    tx: Pick<
      ChainTx,
      'organizationId' | 'touched' | 'outboxWritten' | 'runEnded' | 'granted' | 'head' | 'base' | 'entries'
    >,
  ) => void
  readonly onEntries?: (organizationId: string, drafts: readonly EntryDraft[]) => void
  readonly onFailed?: (reason: ReturnType<typeof reasonOf>) => void
  readonly maxBatch?: number
}

export interface LaneEvents {
  /** The lane may use more memory now. */
  onLoaded(): void
  onIdle(lane: Lane): void
}

export interface WaitingOperation extends Operation {
  resolve(result: unknown): void
  reject(error: unknown): void
}
/** So many operations of a transaction may send their own statements, which takes longer. */
const maxAlone = 24
/** About so many characters are written by one transaction. */
const mostWeight = 4 * 1024 * 1024

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
      // Other callbacks of this turn may submit operations too, which then join the batch.
      await new Promise((resolve) => setImmediate(resolve))
      await this.#execute(this.#take())
    }
    this.#draining = false
    this.#events.onIdle(this)
  }

  #take(): WaitingOperation[] {
    const max = this.#options.maxBatch ?? 256
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
    // The batch has committed. An error below would leave `#draining` true, and the lane would never run another
    // operation.
    const { results } = committed
    batch.slice(0, results.length).forEach((entry, index) => runInTurn(() => entry.resolve(results[index])))
    this.#queue.unshift(...batch.slice(results.length))
    try {
      const { tx } = committed
      this.#options.onCommitted(tx)
      this.#options.onEntries?.(tx.organizationId, tx.drafts)
    } catch (error) {
      // Waiting requests and the relay also poll, so they notice the commit later.
      process.emitWarning(error instanceof Error ? error : String(error))
    }
  }
}

export interface CachedLane {
  /** Only an idle lane can be dropped. */
  readonly idle: boolean
  readonly bytes: number
}

/** Drops idle lanes: above `count`, the least recently used first; above `bytes`, the largest first. */
export class LaneCache<Lane extends CachedLane> {
  readonly #limits: { readonly count: number; readonly bytes: number }
  readonly #lanes = new Map<string, Lane>()
  /** Large lanes that were busy. `trim` runs again when one becomes idle. */
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

  laneOf(organizationId: string, make: () => Lane): Lane {
    const known = this.#lanes.get(organizationId)
    if (known === undefined) this.#trim(this.#limits.count - 1)
    else this.#lanes.delete(organizationId)
    const lane = known ?? make()
    this.#lanes.set(organizationId, lane)
    return lane
  }

  /** Call this when a lane has grown. Drops idle lanes until both limits are met, as far as possible. */
  trim(): void {
    this.#trim(this.#limits.count)
  }

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

/** From one snapshot without the lock: for previews and tests of rules, not to decide a call. */
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
