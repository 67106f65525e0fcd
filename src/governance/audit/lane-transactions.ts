import { sql } from 'kysely'
import { lockChain } from '../../db/queries/audit.ts'
import type { Pipeline, PipelinedTransaction } from '../../db/connect.ts'
import { isAborted, isConnectionError, violates } from '../../db/errors.ts'
import { notFound } from '../errors.ts'
import { loadSegment, planningOf, runBatch, type Operation } from './batch.ts'
import { ChainTx, type ChainReader, type HeadRow } from './chain-tx.ts'
import { ForeignEntry, TookTooLong, UnknownCommit } from './commit-failures.ts'
import { faultSwitch } from './commit-points.ts'
import type { EntryMacs, SignEntry } from './entry-macs.ts'
import { loadPolicy, type LoadedPolicy } from './policy-cache.ts'

export interface TransactionOptions {
  readonly pipeline: Pipeline
  /** Makes the codes of new entries, and checks the code of the head. */
  readonly macs: EntryMacs
  /**
   * Called when another program has appended an entry, but at most once a minute. `seq` is the position of that entry.
   * It is null if the position is unknown.
   */
  readonly onForeignEntry?: (organizationId: string, seq: number | null) => void
  /** Called after each commit. `lockedMilliseconds` is how long the transaction of these operations held the lock. */
  readonly onTransaction?: (operations: number, lockedMilliseconds: number) => void
  /** The longest time, in milliseconds, that a transaction may take after it has got the lock. The default is 5 s. */
  readonly transactionMilliseconds?: number
  /**
   * If the answer to a COMMIT is lost, the lane tries for at most this long to find out whether the batch was saved.
   * After that, the callers get `unavailable` and do not know the outcome. The default is 20 s.
   */
  readonly settleMilliseconds?: number
}

export type PolicyVersion = Pick<HeadRow, 'policy_version' | 'frozen'>

/** A committed transaction, with one result for each operation that ran. */
export interface Committed {
  readonly tx: ChainTx
  readonly results: readonly unknown[]
}

const defaultTransactionMilliseconds = 5_000
const defaultSettleMilliseconds = 20_000
const settleEveryMilliseconds = 100
const alarmEveryMilliseconds = 60_000

/**
 * Runs the transactions of one organization's queue (lane.ts). Each transaction holds the chain's lock, and uses the
 * present policy.
 */
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

  /** Returns the policy in memory if it has this version, and null otherwise. */
  policyOf({ policy_version, frozen }: PolicyVersion): LoadedPolicy | null {
    return this.#policy?.version === policy_version && this.#policy.frozen === frozen ? this.#policy : null
  }

  /** The policy in memory. It can have any version. Is null if there is no policy in memory. */
  get policy(): LoadedPolicy | null {
    return this.#policy
  }

  /**
   * Keeps a policy in memory. If a transaction finds another version under the lock, the transaction loads that
   * version.
   */
  keep(policy: LoadedPolicy): LoadedPolicy {
    this.#policy = policy
    this.#onLoaded()
    return policy
  }

  get #transactionMilliseconds(): number {
    return this.#options.transactionMilliseconds ?? defaultTransactionMilliseconds
  }

  /**
   * Runs the operations and commits them. Throws the error of an operation or of the database, or an error of
   * commit-failures.ts.
   */
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

  /**
   * Reports a foreign entry: it already has the next position, or it is the head and has no valid code. Combiners append
   * entries only under the lock, and this lane had the lock. So no combiner has written that entry.
   */
  #alarm(seq: number | null, cause?: unknown): ForeignEntry {
    const now = performance.now()
    if (now - this.#alarmedAt >= alarmEveryMilliseconds) {
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

  /**
   * Returns whether the transaction has committed although its COMMIT failed. Throws `UnknownCommit` if the database
   * does not answer this question in time.
   */
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
      // The lost transaction holds this lock until it ends. So after this statement, the lost transaction has committed
      // or was rolled back.
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
