import { headsAfter, readEnd, type HeadOfChain, type EndRow } from '../../db/queries/audit.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Log } from '../../shared/log.ts'
import { DomainError, notFound } from '../errors.ts'
import type { AuditAlarms } from './alarms.ts'
import { checkpointKeys, type Checkpoint } from './checkpoint.ts'
import { ChainFailure, CheckpointFolder, failureOf, isOfOneChain } from './checkpoint-folder.ts'
import {
  foreignProblem,
  goneProblem,
  headProblem,
  keptProblem,
  lostOf,
  lostProblem,
  type ChainEnd,
  type Expected,
  type Kept,
} from './end-problems.ts'
import { chainStart, type ChainPosition } from './entry.ts'
import type { EntryMacs } from './entry-macs.ts'
import { GoneLogs } from './gone-logs.ts'
import { KeptPlaces } from './kept-places.ts'
import { KnownHeads } from './known-heads.ts'

export interface CheckpointsOptions {
  readonly db: Db
  /** Checks the codes of entries. A checkpoint never covers an entry that the service did not write. */
  readonly macs: EntryMacs
  readonly encryptionKeys: readonly [Buffer, ...Buffer[]]
  /** Is null if checkpoints are only logged. */
  readonly folder: string | null
  readonly log: Log
  readonly alarms: AuditAlarms
  /** Returns milliseconds. The default is `performance.now`. */
  readonly clock?: () => number
}

/** The head of a chain. `isWhole` is false if the chain was read and lacks this entry. */
interface Head extends Checkpoint {
  readonly isWhole?: boolean
}

/** A process remembers at most this many chains that have grown. A sweep finds the other chains. */
const mostNoted = 50_000
const atOnce = 8
/** A round looks at most at this many chains in alarm. */
const mostLookedAt = 500
/** A round of a sweep reads at most this many pages of chains. */
const pagesInRound = 4
const chainsInPage = 500
/** Milliseconds from the end of one sweep to the next. */
const sweepEvery = 3_600_000

/**
 * Makes the checkpoints of the chains to which this process appends, and keeps the checkpoints outside the database.
 * The head of a chain comes from the commit and not from the database. So the service also notices if somebody deletes
 * the last entries right after their commit.
 */
export class Checkpoints {
  readonly #options: CheckpointsOptions
  readonly #keys: ReturnType<typeof checkpointKeys>
  readonly #folder: CheckpointFolder | null
  readonly #places: KeptPlaces | null
  readonly #gone: GoneLogs | null
  readonly #clock: () => number
  readonly #heads = new KnownHeads()
  #noted = new Map<string, ChainPosition>()
  #sweepAt = -Infinity
  #sweptTo = ''

  constructor(options: CheckpointsOptions) {
    this.#options = options
    this.#keys = checkpointKeys(options.encryptionKeys)
    this.#folder = options.folder === null ? null : new CheckpointFolder(options.folder)
    this.#places = this.#folder === null ? null : new KeptPlaces(options.db, this.#folder, this.#keys)
    this.#gone = this.#folder === null ? null : new GoneLogs(options.db, this.#folder)
    this.#clock = options.clock ?? (() => performance.now())
  }

  /** Returns the key that other people need to check the checkpoints of this organization. */
  verifierKey(organizationId: string): string {
    return this.#keys.verifierKey(organizationId)
  }

  /**
   * Notes the new head of a chain after a commit that added entries behind `base`. The next round of `keep` makes the
   * checkpoint. If the chain has lost entries that this process committed before, the old head stays noted, and its
   * checkpoint becomes the proof.
   */
  note(organizationId: string, head: ChainPosition, base: ChainPosition): void {
    const lost = this.#heads.commit(organizationId, base, head)
    const problem = lostProblem(lost, base)
    if (problem !== null) this.#options.alarms.raise(organizationId, 'end', problem)
    this.#setNoted(organizationId, lost ?? head)
  }

  #setNoted(organizationId: string, { seq, hash }: ChainPosition): void {
    if ((this.#noted.get(organizationId)?.seq ?? 0) > seq) return
    if (this.#noted.size < mostNoted || this.#noted.has(organizationId))
      this.#noted.set(organizationId, { seq, hash })
    else this.#sweepAt = -Infinity
  }

  /**
   * Keeps a checkpoint of each chain that has grown since the last round. If this fails for a chain, the next round
   * tries this chain again. Throws the first error at the end of the round. With `sweep`, also looks at chains in alarm
   * again, goes on with a sweep, and looks for chains that are gone. A sweep finds chains whose newest head no process has
   * noted, for example because of a crash.
   */
  async keep({ sweep = false }: { readonly sweep?: boolean } = {}): Promise<void> {
    const noted = this.#noted
    this.#noted = new Map()
    const heads = [...noted].map(([organizationId, head]) => ({ organizationId, ...head }))
    const errors = await this.#keepAll(heads)
    if (sweep && this.#gone !== null) {
      errors.push(...(await this.#look(this.#options.alarms.wrongEnds(mostLookedAt))))
      errors.push(...(await this.#sweep()), ...(await this.#look(await this.#gone.next())))
    }
    if (errors.length === 0) return
    this.#options.log.warn({ failed: errors.length }, 'checkpoints of audit logs were not kept')
    throw errors[0]
  }

  /**
   * Returns the kept checkpoint of a chain; null if there is none. Call this function before you read the chain.
   * Otherwise the checkpoint can have more entries than the chain that you have read. Throws `unavailable` if the disk
   * fails, because then the folder says nothing about the chain.
   */
  async kept(organizationId: string): Promise<Kept | null> {
    return (await this.#places?.kept(organizationId)) ?? null
  }

  /** Returns what a verification of this chain compares it with. Throws `unavailable` as `kept` does. */
  async expected(organizationId: string): Promise<Expected> {
    const known = this.#heads.of(organizationId)
    return { kept: await this.kept(organizationId), known }
  }

  /**
   * Returns the present end of a chain with its signed checkpoint. A process never signs two checkpoints that contradict
   * each other. If the chain does not match its kept checkpoint, or lacks entries that this process has committed or
   * signed, `problem` says why no checkpoint is signed. Throws `not_found`.
   */
  async end(organizationId: string): Promise<ChainEnd> {
    const known = this.#heads.of(organizationId)
    const kept = await this.kept(organizationId)
    const row = await this.#readEnd(organizationId, kept, known)
    if (row === null) {
      if (!this.#reportGone(organizationId, kept, known)) throw notFound('organization', organizationId)
      const note = kept !== null && 'note' in kept ? kept.note : null
      return { head: chainStart, note, problem: goneProblem }
    }
    const head = { seq: row.seq, hash: row.hash }
    const contradicted = keptProblem(kept, row)
    const foreign = headProblem(row) ?? (await this.#foreign(organizationId, row))
    const problem = contradicted ?? foreign ?? lostProblem(lostOf(known, row), row)
    this.#report(organizationId, problem)
    // A kept checkpoint that the chain contradicts, or that has fewer entries, makes the check of an export fail.
    // Another one could pass.
    const fails = contradicted !== null || (foreign !== null && kept !== null && kept.seq < row.seq)
    const proof = fails && kept !== null && 'note' in kept ? kept.note : null
    if (problem !== null) return { head, note: proof, problem }
    this.#heads.contains(organizationId, known, head)
    return { head, note: this.#keys.sign({ organizationId, ...head }), problem }
  }

  /**
   * Keeps the checkpoints of `atOnce` chains at a time, and returns the errors. If all of these chains fail, and not
   * only because of their own files, the cause is an outage. Then the remaining chains are left to the next round. The
   * next round tries the chains that failed last, so they never stop the other chains.
   */
  async #keepAll(heads: readonly Head[]): Promise<unknown[]> {
    const errors: unknown[] = []
    const failed: Head[] = []
    let left: readonly Head[] = []
    for (let at = 0; at < heads.length; at += atOnce) {
      const some = heads.slice(at, at + atOnce)
      const results = await Promise.allSettled(some.map((head) => this.#keepOne(head)))
      const reasons = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
      errors.push(...reasons)
      failed.push(...some.filter((_head, index) => results[index]?.status === 'rejected'))
      const isOutage = reasons.length === some.length && !reasons.every(isOfOneChain)
      if (!isOutage) continue
      left = heads.slice(at + atOnce)
      break
    }
    for (const head of [...left, ...failed]) this.#setNoted(head.organizationId, head)
    return errors
  }

  #report(organizationId: string, problem: string | null): void {
    const { alarms } = this.#options
    if (problem === null) alarms.settle(organizationId, 'end')
    else alarms.raise(organizationId, 'end', problem)
  }

  async #keepOne({ isWhole = true, ...head }: Head): Promise<void> {
    const { organizationId, seq, hash } = head
    const { log, alarms } = this.#options
    if (this.#folder === null) {
      const note = this.#keys.sign(head)
      log.info({ organization_id: organizationId, seq, checkpoint: note }, 'checkpoint of the audit log')
      return
    }
    const kept = await this.kept(organizationId).catch(failureOf(organizationId))
    const isKept = kept !== null && 'note' in kept && kept.seq === seq && kept.hash === hash
    if (isKept && kept.isCurrent && isWhole && !alarms.has(organizationId))
      return this.#places?.remember(organizationId)
    const known = this.#heads.of(organizationId)
    const row = await this.#readEnd(organizationId, kept, known)
    if (row === null) return void this.#reportGone(organizationId, kept, known)
    const problem = keptProblem(kept, row) ?? headProblem(row) ?? (await this.#foreign(organizationId, row))
    const lost = lostOf(known, row)
    this.#report(organizationId, problem ?? lostProblem(lost, row))
    if (problem !== null) return
    // The checkpoint of lost entries is the proof that they existed. So it is kept, but none of the entries after them.
    const newest = lost === null ? head : { organizationId, ...lost }
    if (kept === null || kept.seq < newest.seq || isKept) await this.#add(newest, kept?.seq ?? 0)
    const last = known.at(-1)
    if (lost === null && last !== undefined) this.#heads.contains(organizationId, known, last)
  }

  async #add(head: Checkpoint, checked: number): Promise<void> {
    const { organizationId, seq } = head
    // A folder that has a checkpoint of this chain is in use, also without a mark.
    if (checked === 0) await this.#places?.requireOpen()
    try {
      await this.#folder?.add(organizationId, { seq, text: this.#keys.sign(head) }, checked)
    } catch (error) {
      throw new ChainFailure(`the checkpoint of ${organizationId} was not kept: ${(error as Error).message}`)
    }
    await this.#places?.remember(organizationId)
  }

  /** Checks whether the ends of these chains are right now. Returns the errors. Stops at an outage. */
  async #look(organizationIds: readonly string[]): Promise<unknown[]> {
    const errors: unknown[] = []
    for (const organizationId of organizationIds) {
      try {
        await this.end(organizationId)
      } catch (error) {
        if (error instanceof DomainError && error.code === 'not_found') continue
        errors.push(error)
        if (!(error instanceof DomainError)) break
      }
    }
    return errors
  }

  /** Reports a chain without a head. Returns whether it had entries, so that its log is gone. */
  #reportGone(organizationId: string, kept: Kept | null, known: readonly ChainPosition[]): boolean {
    const hadEntries = kept !== null || known.length > 0
    this.#report(organizationId, hadEntries ? goneProblem : null)
    return hadEntries
  }

  /**
   * Keeps the checkpoints of these chains, and returns the errors. The heads come from the database, so a head without
   * a valid code gets an alarm, and no checkpoint.
   */
  async keepChains(rows: readonly HeadOfChain[]): Promise<unknown[]> {
    const heads: Head[] = []
    for (const { organization_id: organizationId, is_whole: isWhole, mac, ...head } of rows)
      if (!isWhole || (await this.#options.macs.isOurs(organizationId, head, mac)))
        heads.push({ organizationId, isWhole, ...head })
      else this.#report(organizationId, foreignProblem(head.seq))
    return this.#keepAll(heads)
  }

  /**
   * Returns a sentence if the service did not write the newest entry. The earlier entries are then right too, because
   * the service appends only to an entry of its own (lane-transactions.ts).
   */
  async #foreign(organizationId: string, { seq, hash, last_mac: mac }: EndRow): Promise<string | null> {
    const isOurs = await this.#options.macs.isOurs(organizationId, { seq, hash }, mac)
    return isOurs ? null : foreignProblem(seq)
  }

  /** Goes on with the sweep over all chains, and reads the next few pages. Returns the errors. */
  async #sweep(): Promise<unknown[]> {
    if (this.#clock() < this.#sweepAt) return []
    const errors: unknown[] = []
    for (let pages = 0; pages < pagesInRound; pages += 1) {
      const { rows } = await headsAfter(this.#sweptTo, chainsInPage).execute(this.#options.db)
      errors.push(...(await this.keepChains(rows)))
      this.#sweptTo = rows.at(-1)?.organization_id ?? ''
      if (rows.length === chainsInPage) continue
      this.#sweptTo = ''
      this.#sweepAt = this.#clock() + sweepEvery
      break
    }
    return errors
  }

  async #readEnd(
    organizationId: string,
    kept: Kept | null,
    known: readonly ChainPosition[],
  ): Promise<EndRow | null> {
    const positions = known.map(({ seq }) => seq)
    const { rows } = await readEnd(organizationId, kept?.seq ?? 0, positions).execute(this.#options.db)
    return rows[0] ?? null
  }
}
