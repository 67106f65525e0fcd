import { sql } from 'kysely'
import type { Pipeline, PipelinedTransaction } from '../db/pipelined.ts'
import { ChainTx, type ChainReader, type HeadRow } from './chain-tx.ts'
import { faultSwitch, type CommitPoint } from './commit-points.ts'
import { isAborted, isConnectionError, violates } from './database-errors.ts'
import { DomainError, notFound } from './errors.ts'
import { KeptLanes } from './kept-lanes.ts'
import { loadPolicy, type LoadedPolicy } from './policy-cache.ts'
import { later } from './turns.ts'

/**
 * The combiner: the one way to append to an organization's chain.
 *
 * States of an organization in this process. *Idle*: nothing waits. *Draining*: one transaction is in flight; what
 * arrives meanwhile waits and goes together into the next one. A transaction locks `chain_head` first, then anything
 * else; under the lock it reloads the policy if its version has moved, runs the operations in the order they came
 * (those of one family side by side read and write in one go), writes, commits, and only then answers. Operations of a
 * batch see what those before them did; what follows a change of the policy waits for the next transaction. A batch that
 * fails is run again in halves, in order, so that a bad operation fails alone and the others still share their commits.
 * A commit whose answer was lost is settled by looking for its last entry in the chain, after taking the lock that it
 * would still hold; only what is certainly not there is ever run again.
 */
export interface Combiner {
  /** Runs one operation with statements of its own. `work` may run again if its transaction fails. */
  run<R>(organizationId: string, point: CommitPoint, work: (tx: ChainTx) => Promise<R>): Promise<R>
  /** Runs an operation whose reads and writes are shared with those of its kind beside it. */
  join<Op, Shared, R>(organizationId: string, batch: BatchKind<Op, Shared, R>, op: Op): Promise<R>
}

/** Operations that can share a transaction: what all of them need is read at once, what all write is written at once. */
export interface BatchKind<Op, Shared, R> {
  readonly point: CommitPoint
  /** Kinds of one family have the same `load` and `write` and are read and written together. */
  readonly family?: object
  /** About how many characters it may bring to write; operations that bring much share no transaction. Default 0. */
  weight?(op: Op): number
  /** Reads what these operations need, in one statement, which is sent along with the one that takes the lock. */
  load(reader: ChainReader, ops: readonly Op[]): Promise<Shared>
  /** Decides one operation, in order; changes only `shared` and the buffers of `tx`. */
  apply(tx: ChainTx, shared: Shared, op: Op): R
  /** Sends what `apply` left in `shared`, multi-row. Whether it was written shows at the commit. */
  write(tx: ChainTx, shared: Shared): void
}

export interface CombinerOptions {
  readonly pipeline: Pipeline
  /** Told after each commit. */
  readonly onCommitted: (touchedRuns: ReadonlySet<string>, outboxWritten: boolean) => void
  /** Told, at most once a minute, of an entry at `seq` that nobody has appended through a combiner. */
  readonly onForeignEntry?: (organizationId: string, seq: number | null) => void
  /** Longest batch; 1 makes it lock, append and commit per call. */
  readonly maxBatch?: number
  /** How long a transaction may take once it holds the lock. Default 5 s. */
  readonly transactionMilliseconds?: number
  /** How long a lost commit is looked for before its callers are told that nobody knows. Default 20 s. */
  readonly settleMilliseconds?: number
  /** Organizations whose compiled policy a process keeps, and their bytes; beyond it idle ones are read again. */
  readonly kept?: { readonly count: number; readonly bytes: number }
}

interface Waiting {
  readonly point: CommitPoint
  /** null: `work` brings statements of its own. */
  readonly kind: BatchKind<unknown, unknown, unknown> | null
  readonly op: unknown
  readonly work: ((tx: ChainTx) => Promise<unknown>) | null
  resolve(result: unknown): void
  reject(error: unknown): void
}

const defaultMaxBatch = 256
/** Operations with statements of their own take longer: so many share a transaction at the most. */
const maxAlone = 24
/** Beyond so many characters to write a transaction takes no more operations. */
const mostWeight = 4 * 1024 * 1024
const defaultTransactionMilliseconds = 5_000
const defaultSettleMilliseconds = 20_000
const settleEveryMilliseconds = 100
const alarmEveryMilliseconds = 60_000
const defaultKept = { count: 1_000, bytes: 128 * 1024 * 1024 }

export function createCombiner(options: CombinerOptions): Combiner {
  const lanes = new KeptLanes<Lane>(options.kept ?? defaultKept)
  const submit = <R>(organizationId: string, entry: Omit<Waiting, 'resolve' | 'reject'>): Promise<R> =>
    new Promise<R>((resolve, reject) => {
      const lane = lanes.of(organizationId, () => new Lane(organizationId, options, () => lanes.trim()))
      lane.submit({ ...entry, resolve: resolve, reject })
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
  }
}

/** One organization's queue in this process. */
class Lane {
  readonly #organizationId: string
  readonly #options: CombinerOptions
  readonly #onLoaded: () => void
  readonly #queue: Waiting[] = []
  #draining = false
  #policy: LoadedPolicy | null = null
  #alarmedAt = -Infinity

  constructor(organizationId: string, options: CombinerOptions, onLoaded: () => void) {
    this.#organizationId = organizationId
    this.#options = options
    this.#onLoaded = onLoaded
  }

  get idle(): boolean {
    return !this.#draining
  }

  get bytes(): number {
    return this.#policy?.bytes ?? 0
  }

  get #transactionMilliseconds(): number {
    return this.#options.transactionMilliseconds ?? defaultTransactionMilliseconds
  }

  submit(entry: Waiting): void {
    this.#queue.push(entry)
    if (!this.#draining) void this.#drain()
  }

  async #drain(): Promise<void> {
    this.#draining = true
    while (this.#queue.length > 0) {
      // Not a wait: whoever this turn of the event loop still answers or reads comes along, instead of the first alone.
      await new Promise((resolve) => setImmediate(resolve))
      await this.#execute(this.#take())
    }
    this.#draining = false
  }

  /** As many from the front as one transaction takes. */
  #take(): Waiting[] {
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

  async #execute(batch: Waiting[]): Promise<void> {
    let committed: Committed
    try {
      committed = await this.#commit(batch)
    } catch (error) {
      if (batch.length > 1 && isRetryableAlone(error)) {
        const middle = batch.length >> 1
        await this.#execute(batch.slice(0, middle))
        await this.#execute(batch.slice(middle))
        return
      }
      for (const entry of batch) entry.reject(answerTo(error))
      return
    }
    // Nothing below may throw: what is committed must never be taken for failed and run again.
    const { results } = committed
    batch.slice(0, results.length).forEach((entry, index) => later(() => entry.resolve(results[index])))
    this.#queue.unshift(...batch.slice(results.length))
    try {
      this.#options.onCommitted(committed.tx.touched, committed.tx.outboxWritten)
    } catch (error) {
      // Readers that were not told poll, and so does the relay.
      process.emitWarning(error instanceof Error ? error : String(error))
    }
  }

  async #commit(batch: readonly Waiting[]): Promise<Committed> {
    const pipe = await this.#options.pipeline.open()
    let sent: Committed | null = null
    let lockedAt = Infinity
    try {
      const reader: ChainReader = { organizationId: this.#organizationId, send: (read) => pipe.send(read) }
      const areShared = batch.every(({ kind }) => kind !== null)
      const opening = this.#lock(pipe, areShared ? 'force_generic_plan' : 'auto')
      const first = loadSegment(reader, batch, 0)
      const head = await opening
      lockedAt = performance.now()
      const tx = await this.#open(pipe, head)
      const results = await runBatch(tx, batch, first)
      tx.flush()
      for (const { point } of batch.slice(0, results.length)) faultSwitch(`${point}:before`)
      sent = { tx, results }
      await pipe.commit()
      await pipe.end('committed')
    } catch (error) {
      await pipe.end('rollback')
      const cause = isAborted(error) ? (pipe.failure ?? error) : error
      if (violates(cause, 'audit_events_pkey')) throw this.#alarm(cause)
      const tookTooLong =
        isConnectionError(cause) && performance.now() - lockedAt >= this.#transactionMilliseconds
      if (sent === null || !(await this.#settled(sent.tx, cause)))
        throw tookTooLong ? new TookTooLong('', { cause }) : cause
    }
    for (const { point } of batch.slice(0, sent.results.length)) faultSwitch(`${point}:after`)
    return sent
  }

  /** Under the lock nobody else appends: what stands in the way was put there past every combiner. */
  #alarm(cause: unknown): ForeignEntry {
    const seq = /, (\d+)\) already exists/.exec((cause as { detail?: string }).detail ?? '')?.[1]
    const now = performance.now()
    if (now - this.#alarmedAt >= alarmEveryMilliseconds) {
      this.#alarmedAt = now
      this.#options.onForeignEntry?.(this.#organizationId, seq === undefined ? null : Number(seq))
    }
    return new ForeignEntry('', { cause })
  }

  #lock(pipe: PipelinedTransaction, planning = 'auto'): Promise<readonly HeadRow[]> {
    // Outside of the locking subquery, so that the clock is read when the lock is held, not when the wait began. What a
    // batch reads is planned once: with its values it would be planned anew each time, which takes longer than running it.
    return pipe.send(sql<HeadRow>`
      select head.*, clock_timestamp() as now, set_config('transaction_timeout', ${`${this.#transactionMilliseconds}`}, true),
             set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
             set_config('plan_cache_mode', ${planning}, true),
             set_config('countersign.organization', ${this.#organizationId}, true)
      from (select seq, hash, policy_version, frozen, stored_bytes, pending_approvals
            from chain_head where organization_id = ${this.#organizationId} for update) as head`)
  }

  async #open(pipe: PipelinedTransaction, [head]: readonly HeadRow[]): Promise<ChainTx> {
    if (head === undefined) throw notFound('organization', this.#organizationId)
    if (this.#policy?.version !== head.policy_version || this.#policy.frozen !== head.frozen) {
      this.#policy = await loadPolicy(pipe.db, this.#organizationId, head.policy_version, head.frozen)
      this.#onLoaded()
    }
    return new ChainTx(pipe, this.#organizationId, head, this.#policy)
  }

  /** Whether a transaction whose COMMIT failed did commit after all. Throws when that cannot be learnt in time. */
  async #settled(tx: ChainTx, cause: unknown): Promise<boolean> {
    if (tx.entries === 0) return false
    const deadline = Date.now() + (this.#options.settleMilliseconds ?? defaultSettleMilliseconds)
    for (;;) {
      try {
        return await this.#isStored(tx)
      } catch (error) {
        if (!isConnectionError(error) || Date.now() > deadline) throw new UnknownCommit('', { cause })
        await new Promise((resolve) => setTimeout(resolve, settleEveryMilliseconds))
      }
    }
  }

  async #isStored(tx: ChainTx): Promise<boolean> {
    const pipe = await this.#options.pipeline.open()
    try {
      // While the lost transaction lives it holds this lock: once we have it, it has committed or is gone.
      await this.#lock(pipe)
      const [found] = await pipe.send(sql<{ hash: string }>`
        select hash from audit_events where organization_id = ${this.#organizationId} and seq = ${tx.head.seq}`)
      return found?.hash === tx.head.hash
    } finally {
      await pipe.end('rollback')
    }
  }
}

interface Committed {
  readonly tx: ChainTx
  readonly results: readonly unknown[]
}

/** Nobody knows whether it committed: the one failure after which nothing may be run again. */
class UnknownCommit extends Error {}

/** The database ended the transaction, and with it the connection: nothing was saved. */
class TookTooLong extends Error {}

/** Something else stands where the chain goes on: nothing can be saved until a person has looked. */
class ForeignEntry extends Error {}

/** Whether running the operations of a failed batch in smaller ones can help. */
function isRetryableAlone(error: unknown): boolean {
  return !(error instanceof UnknownCommit || error instanceof ForeignEntry) && !isConnectionError(error)
}

/** What the callers of a failed operation are told. */
function answerTo(error: unknown): unknown {
  if (error instanceof UnknownCommit)
    return new DomainError(
      'unavailable',
      'the database was lost while saving and it is not known whether this was saved: look before trying again',
    )
  if (error instanceof ForeignEntry)
    return new DomainError(
      'unavailable',
      'the audit log holds an entry that this service did not write, so nothing can be saved: an operator must verify it',
    )
  if (error instanceof TookTooLong)
    return new DomainError('unavailable', 'it took too long, so nothing was decided: try again')
  if (isConnectionError(error))
    return new DomainError('unavailable', 'the database cannot be reached, nothing was decided: try again')
  return error
}

/**
 * Runs the operations in order, those of one family side by side sharing their reads and writes. Stops after one that
 * changed the policy: what follows it is decided under the new one, in the next transaction. Answers one result for each
 * that ran.
 */
async function runBatch(tx: ChainTx, batch: readonly Waiting[], first: Segment | null): Promise<unknown[]> {
  const results: unknown[] = []
  while (results.length < batch.length && !tx.isPolicyChanged) {
    const segment = results.length === 0 ? first : loadSegment(tx, batch, results.length)
    if (segment === null) {
      const { work } = batch[results.length] as Waiting
      results.push(await (work as NonNullable<Waiting['work']>)(tx))
      continue
    }
    const { kind, entries } = segment
    const shared = await segment.shared
    for (const entry of entries) results.push((entry.kind ?? kind).apply(tx, shared, entry.op))
    kind.write(tx, shared)
  }
  return results
}

/** Operations of one family side by side, and what they share once it is read. */
interface Segment {
  readonly kind: NonNullable<Waiting['kind']>
  readonly entries: readonly Waiting[]
  readonly shared: Promise<unknown>
}

/** Starts reading for the operations from `start` on; null if the one there brings statements of its own. */
function loadSegment(reader: ChainReader, batch: readonly Waiting[], start: number): Segment | null {
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
  // Whoever waits for it is told; the transaction may have failed before that.
  shared.catch(() => undefined)
  return { kind, entries, shared }
}

function familyOf(kind: Waiting['kind']): object | null {
  return kind === null ? null : (kind.family ?? kind)
}
