import { sql } from 'kysely'
import { lockChain } from '../../db/queries/audit.ts'
import type { Pipeline, PipelinedTransaction } from '../../db/connect.ts'
import { isAborted, isConnectionError, violates, writeRefusal, type WriteRefusal } from '../../db/errors.ts'
import { notFound, DomainError } from '../errors.ts'
import { ChainTx, type ChainReader, type HeadRow } from './chain-tx.ts'
import { faultSwitch, type CommitPoint } from './commit-points.ts'
import type { EntryMacs, SignEntry } from './entry-macs.ts'
import { loadPolicy, type LoadedPolicy } from './policy-cache.ts'

export interface TransactionOptions {
  readonly pipeline: Pipeline
  readonly macs: EntryMacs
  /** Called at most once a minute. `seq` is null if the position of the entry is unknown. */
  readonly onForeignEntry?: (organizationId: string, seq: number | null) => void
  /** `lockedMilliseconds`: how long the transaction held the lock. */
  readonly onTransaction?: (operations: number, lockedMilliseconds: number) => void
  /** After the lock was taken. The default is 5 s. */
  readonly transactionMilliseconds?: number
  /** To find out what became of a COMMIT without an answer; then callers get `unavailable`. The default is 20 s. */
  readonly settleMilliseconds?: number
}

export type PolicyVersion = Pick<HeadRow, 'policy_version' | 'frozen'>

export interface Committed {
  readonly tx: ChainTx
  readonly results: readonly unknown[]
}

/** Each transaction holds the chain's lock, and uses the present policy. */
export class LaneTransactions {
  readonly #organizationId: string
  readonly #options: TransactionOptions
  readonly #onLoaded: () => void
  #policy: LoadedPolicy | null = null
  #alarmedAt = -Infinity

  constructor(organizationId: string, options: TransactionOptions, onLoaded: () => void) {
    this.#organizationId = organizationId
    this.#options = options
    this.#onLoaded = onLoaded
  }

  get policyBytes(): number {
    return this.#policy?.bytes ?? 0
  }

  /** null if the policy in memory has another version. */
  policyOf({ policy_version, frozen }: PolicyVersion): LoadedPolicy | null {
    return this.#policy?.version === policy_version && this.#policy.frozen === frozen ? this.#policy : null
  }

  /** In any version. */
  get policy(): LoadedPolicy | null {
    return this.#policy
  }

  /** A transaction that finds another version under the lock loads that one. */
  keep(policy: LoadedPolicy): LoadedPolicy {
    this.#policy = policy
    this.#onLoaded()
    return policy
  }

  get #transactionMilliseconds(): number {
    return this.#options.transactionMilliseconds ?? 5_000
  }

  /** Throws the error of an operation, of the database, or of commit-failures.ts. */
  async commit(batch: readonly Operation[]): Promise<Committed> {
    const sign = await this.#options.macs.signer(this.#organizationId)
    const pipe = await this.#options.pipeline.open()
    let sent: Committed | null = null
    let lockedAt = Infinity
    try {
      const reader: ChainReader = { organizationId: this.#organizationId, send: (read) => pipe.send(read) }
      const opening = this.#lock(pipe, planningOf(batch[0]))
      const first = loadSegment(reader, batch, 0)
      const head = await opening
      lockedAt = performance.now()
      const tx = await this.#open(pipe, sign, head)
      const results = await runBatch(tx, batch, first)
      tx.flush()
      for (const { point } of batch.slice(0, results.length)) faultSwitch(`${point}:before`)
      sent = { tx, results }
      await pipe.commit()
      this.#options.onTransaction?.(results.length, performance.now() - lockedAt)
      await pipe.end('committed')
    } catch (error) {
      await pipe.end('rollback')
      const cause = isAborted(error) ? (pipe.failure ?? error) : error
      if (violates(cause, 'audit_events_pkey')) throw this.#alarm(seqOf(cause), cause)
      const tookTooLong =
        isConnectionError(cause) && performance.now() - lockedAt >= this.#transactionMilliseconds
      if (sent === null || !(await this.#settled(sent.tx, cause)))
        throw tookTooLong ? new TookTooLong('', { cause }) : cause
    }
    for (const { point } of batch.slice(0, sent.results.length)) faultSwitch(`${point}:after`)
    return sent
  }

  /** It has the next position, or is the head without a valid code: combiners append only under the lock. */
  #alarm(seq: number | null, cause?: unknown): ForeignEntry {
    const now = performance.now()
    if (now - this.#alarmedAt >= 60_000) {
      this.#alarmedAt = now
      this.#options.onForeignEntry?.(this.#organizationId, seq)
    }
    return new ForeignEntry('', { cause })
  }

  #lock(pipe: PipelinedTransaction, planning = 'auto'): Promise<readonly HeadRow[]> {
    return pipe.send(
      lockChain<HeadRow>({
        organizationId: this.#organizationId,
        transactionMilliseconds: this.#transactionMilliseconds,
        planning,
      }),
    )
  }

  async #open(pipe: PipelinedTransaction, sign: SignEntry, [head]: readonly HeadRow[]): Promise<ChainTx> {
    if (head === undefined) throw notFound('organization', this.#organizationId)
    // So each entry of the service follows an entry of the service, and the code of the head speaks for the whole log.
    if (!(await this.#options.macs.isOurs(this.#organizationId, head, head.mac))) throw this.#alarm(head.seq)
    const policy =
      this.policyOf(head) ?? this.keep(await loadPolicy(pipe.db, this.#organizationId, head, this.#policy))
    return new ChainTx(pipe, this.#organizationId, head, policy, sign)
  }

  /** Whether a failed COMMIT has committed. Throws `UnknownCommit` if the database does not answer in time. */
  async #settled(tx: ChainTx, cause: unknown): Promise<boolean> {
    if (tx.entries === 0) return false
    const deadline = Date.now() + (this.#options.settleMilliseconds ?? 20_000)
    for (;;) {
      try {
        return await this.#isStored(tx)
      } catch (error) {
        if (!isConnectionError(error) || Date.now() > deadline) throw new UnknownCommit('', { cause })
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
    }
  }

  async #isStored(tx: ChainTx): Promise<boolean> {
    const pipe = await this.#options.pipeline.open()
    try {
      // The lost transaction holds this lock until it ends.
      await this.#lock(pipe)
      const [found] = await pipe.send(sql<{ hash: string }>`
        select hash from audit_events where organization_id = ${this.#organizationId} and seq = ${tx.head.seq}`)
      return found?.hash === tx.head.hash
    } finally {
      await pipe.end('rollback')
    }
  }
}

/** Returns the position that a violation of the primary key names. */
function seqOf(cause: unknown): number | null {
  const seq = /, (\d+)\) already exists/.exec((cause as { detail?: string }).detail ?? '')?.[1]
  return seq === undefined ? null : Number(seq)
}

/** Operations of one kind can share a transaction, with one read and one write for all of them. */
export interface BatchKind<Op, Shared, R> {
  readonly point: CommitPoint
  /** Kinds with the same family have the same `load` and `write`, and are read and written together. */
  readonly family?: object
  /** Estimates the characters that the operation writes. Their sum limits how many share a transaction. */
  weight?(op: Op): number
  /** One statement for all. For the first operations, it is sent together with the statement that takes the lock. */
  load(reader: ChainReader, ops: readonly Op[]): Promise<Shared>
  /** Decides one operation; they are decided in order. Changes only `shared` and the buffers of `tx`. */
  apply(tx: ChainTx, shared: Shared, op: Op): R
  /** Sends what `apply` left in `shared`. If a statement fails, the commit fails. */
  write(tx: ChainTx, shared: Shared): void
}

export interface Operation {
  readonly point: CommitPoint
  /** null if `work` sends its own statements. */
  readonly kind: BatchKind<unknown, unknown, unknown> | null
  readonly op: unknown
  readonly work: ((tx: ChainTx) => Promise<unknown>) | null
}

/** Runs them in order, and stops behind one that changed the policy: the others run in the next transaction. */
async function runBatch(tx: ChainTx, batch: readonly Operation[], first: Segment | null): Promise<unknown[]> {
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

/** Planning a batch takes longer than running it; elsewhere a partial index may need the values of the statement. */
const planningOf = (operation: Operation | undefined): 'force_generic_plan' | 'auto' =>
  operation?.kind == null ? 'auto' : 'force_generic_plan'

/** Neighbouring operations of one family, and their data. */
export interface Segment {
  readonly kind: NonNullable<Operation['kind']>
  readonly entries: readonly Operation[]
  readonly shared: Promise<unknown>
}

/** Starts to read the data of the neighbours from `start` on. null if the operation there sends its own statements. */
function loadSegment(reader: ChainReader, batch: readonly Operation[], start: number): Segment | null {
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
  // `runBatch` awaits this promise, unless the transaction fails earlier.
  shared.catch(() => undefined)
  return { kind, entries, shared }
}

function familyOf(kind: Operation['kind']): object | null {
  return kind === null ? null : (kind.family ?? kind)
}

/** Its operations must not run again. */
export class UnknownCommit extends Error {}

/** The database has ended the transaction and its connection. Nothing was saved. */
export class TookTooLong extends Error {}

/** Another program wrote the next entry. Nothing can be saved until a person has verified the log. */
export class ForeignEntry extends Error {}

/** Callers must not treat this as an outage, because the same work may take too long each time. */
export class TransactionTooLong extends DomainError {
  constructor() {
    super('unavailable', 'the transaction took too long, so nothing was decided: try again')
  }
}

export function isRetryableAlone(error: unknown): boolean {
  const isSettled = error instanceof UnknownCommit || error instanceof ForeignEntry
  return !isSettled && !isConnectionError(error) && writeRefusal(error) === null
}

export function answerTo(error: unknown): unknown {
  if (error instanceof UnknownCommit)
    return new DomainError(
      'unavailable',
      'the database connection was lost while saving, and it is unknown whether this was saved: check before you try again',
    )
  if (error instanceof ForeignEntry)
    return new DomainError(
      'unavailable',
      'the audit log holds an entry that this service did not write, so nothing can be saved: an operator must verify the log',
    )
  if (error instanceof TookTooLong) return new TransactionTooLong()
  if (writeRefusal(error) !== null)
    return new DomainError(
      'unavailable',
      'the database cannot write at present, nothing was saved: try again',
    )
  if (isConnectionError(error))
    return new DomainError('unavailable', 'the database cannot be reached, nothing was decided: try again')
  return error
}

/** For the metrics. */
export function reasonOf(error: unknown): 'database' | 'foreign_entry' | 'operation' | WriteRefusal {
  if (error instanceof ForeignEntry) return 'foreign_entry'
  const refusal = writeRefusal(error)
  if (refusal !== null) return refusal
  return isConnectionError(error) || error instanceof UnknownCommit || error instanceof TookTooLong
    ? 'database'
    : 'operation'
}
