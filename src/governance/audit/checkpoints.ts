import { headsAfter, type HeadOfChain, readEnd, type EndRow } from '../../db/queries/audit.ts'
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
import { goneLogs, KeptCheckpoints } from './kept-checkpoints.ts'

export interface CheckpointsOptions {
  readonly db: Db
  /** A checkpoint never covers an entry that the service did not write. */
  readonly macs: EntryMacs
  readonly encryptionKeys: readonly [Buffer, ...Buffer[]]
  /** null if checkpoints are only logged. */
  readonly folder: string | null
  readonly log: Log
  readonly alarms: AuditAlarms
  readonly clock?: () => number
}

/** `isWhole` is false if the chain was read and lacks this entry. */
interface Head extends Checkpoint {
  readonly isWhole?: boolean
}

/** A sweep finds the chains that have grown beyond this number. */
const mostNoted = 50_000
const atOnce = 8
/** A round looks at this many chains in alarm, and reads this many pages of a sweep. */
const mostLookedAt = 500
const chainsInPage = 500
/** Milliseconds from the end of one sweep to the next. */
const sweepEvery = 3_600_000

/**
 * Makes the checkpoints of the chains to which this process appends, and keeps them outside the database. A head comes
 * from the commit and not from the database, so the service notices if its last entries are deleted right after.
 */
export class Checkpoints {
  readonly #options: CheckpointsOptions
  readonly #keys: ReturnType<typeof checkpointKeys>
  readonly #folder: CheckpointFolder | null
  readonly #places: KeptCheckpoints | null
  readonly #gone: ReturnType<typeof goneLogs> | null
  readonly #clock: () => number
  readonly #heads = new KnownHeads()
  #noted = new Map<string, ChainPosition>()
  #sweepAt = -Infinity
  #sweptTo = ''

  constructor(options: CheckpointsOptions) {
    this.#options = options
    this.#keys = checkpointKeys(options.encryptionKeys)
    this.#folder = options.folder === null ? null : new CheckpointFolder(options.folder)
    this.#places = this.#folder === null ? null : new KeptCheckpoints(options.db, this.#folder, this.#keys)
    this.#gone = this.#folder === null ? null : goneLogs(options.db, this.#folder)
    this.#clock = options.clock ?? (() => performance.now())
  }

  verifierKey(organizationId: string): string {
    return this.#keys.verifierKey(organizationId)
  }

  /**
   * Notes a new head after a commit behind `base`; the next round of `keep` makes its checkpoint. If the chain has lost
   * entries that this process has committed, the old head stays noted, and its checkpoint becomes the proof.
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
   * Keeps a checkpoint of each chain that has grown. Where it fails, the next round tries again; throws the first error
   * at the end. With `sweep`, also looks at chains in alarm, goes on with a sweep for heads that no process has noted
   * (a crash), and looks for chains that are gone.
   */
  async keep({ sweep = false }: { readonly sweep?: boolean } = {}): Promise<void> {
    const noted = this.#noted
    this.#noted = new Map()
    const heads = [...noted].map(([organizationId, head]) => ({ organizationId, ...head }))
    const errors = await this.#keepAll(heads)
    if (sweep && this.#gone !== null) {
      errors.push(...(await this.#look(this.#options.alarms.wrongEnds(mostLookedAt))))
      errors.push(...(await this.#sweep()), ...(await this.#look(await this.#gone())))
    }
    if (errors.length === 0) return
    this.#options.log.warn({ failed: errors.length }, 'checkpoints of audit logs were not kept')
    throw errors[0]
  }

  /** Read it before the chain, or the checkpoint can be ahead. Throws `unavailable`: the folder then says nothing. */
  async kept(organizationId: string): Promise<Kept | null> {
    return (await this.#places?.kept(organizationId)) ?? null
  }

  /** Throws `unavailable` as `kept` does. */
  async expected(organizationId: string): Promise<Expected> {
    const known = this.#heads.of(organizationId)
    return { kept: await this.kept(organizationId), known }
  }

  /**
   * Returns the present end with its signed checkpoint. A process never signs two that contradict each other: if the
   * chain does not match its kept checkpoint, or lacks what this process has committed or signed, `problem` says why
   * none is signed. Throws `not_found`.
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
    // The check of an export fails with a kept checkpoint that the chain contradicts, or that has fewer entries.
    // Another one could pass.
    const fails = contradicted !== null || (foreign !== null && kept !== null && kept.seq < row.seq)
    const proof = fails && kept !== null && 'note' in kept ? kept.note : null
    if (problem !== null) return { head, note: proof, problem }
    this.#heads.contains(organizationId, known, head)
    return { head, note: this.#keys.sign({ organizationId, ...head }), problem }
  }

  /**
   * Keeps the checkpoints of `atOnce` chains at a time, and returns the errors. If all of these fail, and not by their
   * own files, it is an outage: the rest is left to the next round, which tries the failed ones last.
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
    // The checkpoint of lost entries proves that they existed. So it is kept, and none of the entries after them.
    const newest = lost === null ? head : { organizationId, ...lost }
    if (kept === null || kept.seq < newest.seq || isKept) await this.#add(newest, kept?.seq ?? 0)
    const last = known.at(-1)
    if (lost === null && last !== undefined) this.#heads.contains(organizationId, known, last)
  }

  async #add(head: Checkpoint, checked: number): Promise<void> {
    const { organizationId, seq } = head
    if (checked === 0) await this.#places?.requireOpen()
    try {
      await this.#folder?.add(organizationId, { seq, text: this.#keys.sign(head) }, checked)
    } catch (error) {
      throw new ChainFailure(`the checkpoint of ${organizationId} was not kept: ${(error as Error).message}`)
    }
    await this.#places?.remember(organizationId)
  }

  /** Returns the errors, and stops at an outage. */
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

  /** Returns whether the chain without a head had entries, so that its log is gone. */
  #reportGone(organizationId: string, kept: Kept | null, known: readonly ChainPosition[]): boolean {
    const hadEntries = kept !== null || known.length > 0
    this.#report(organizationId, hadEntries ? goneProblem : null)
    return hadEntries
  }

  /** The heads come from the database: one without a valid code gets an alarm, and no checkpoint. */
  async keepChains(rows: readonly HeadOfChain[]): Promise<unknown[]> {
    const heads: Head[] = []
    for (const { organization_id: organizationId, is_whole: isWhole, mac, ...head } of rows)
      if (!isWhole || (await this.#options.macs.isOurs(organizationId, head, mac)))
        heads.push({ organizationId, isWhole, ...head })
      else this.#report(organizationId, foreignProblem(head.seq))
    return this.#keepAll(heads)
  }

  /** The earlier entries are right if the newest is: the service appends only to an entry of its own. */
  async #foreign(organizationId: string, { seq, hash, last_mac: mac }: EndRow): Promise<string | null> {
    const isOurs = await this.#options.macs.isOurs(organizationId, { seq, hash }, mac)
    return isOurs ? null : foreignProblem(seq)
  }

  async #sweep(): Promise<unknown[]> {
    if (this.#clock() < this.#sweepAt) return []
    const errors: unknown[] = []
    for (let pages = 0; pages < 4; pages += 1) {
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

export interface SignedAgain {
  readonly signed: number
  /** Their kept checkpoint does not match the audit log. */
  readonly unsigned: readonly string[]
}

/** Throws an error of the disk or the database. */
export async function signAgain({
  db,
  checkpoints,
}: {
  readonly db: Db
  readonly checkpoints: Checkpoints
}): Promise<SignedAgain> {
  let signed = 0
  const unsigned: string[] = []
  for (let after = ''; ;) {
    const { rows } = await headsAfter(after, chainsInPage).execute(db)
    const [error] = await checkpoints.keepChains(rows)
    if (error !== undefined) throw error
    for (const { organization_id } of rows) {
      if (isSigned(await checkpoints.kept(organization_id))) signed += 1
      else unsigned.push(organization_id)
    }
    const last = rows.at(-1)
    if (last === undefined) return { signed, unsigned }
    after = last.organization_id
  }
}

const isSigned = (kept: Kept | null): boolean => kept !== null && 'note' in kept && kept.isCurrent

interface Known {
  /** null if this process has only signed a head. */
  readonly committed: ChainPosition | null
  /** In the order of `seq`. */
  readonly heads: readonly ChainPosition[]
  /** The head that a later commit of this process did not contain. */
  readonly lost: ChainPosition | null
}

const unknown: Known = { committed: null, heads: [], lost: null }

/** The chain that was used longest ago is forgotten first. */
const mostKnown = 50_000

/** Heads that this process has committed or signed. A chain only grows, so each later state must contain them. */
export class KnownHeads {
  readonly #known = new Map<string, Known>()
  readonly #most: number

  constructor(most = mostKnown) {
    this.#most = most
  }

  of(organizationId: string): readonly ChainPosition[] {
    return this.#known.get(organizationId)?.heads ?? []
  }

  /**
   * Remembers a commit behind `base`; commits of one chain arrive in order. If it contradicts an earlier head, somebody
   * has cut or changed the chain: returns this head, and remembers neither this commit nor a later one.
   */
  commit(organizationId: string, base: ChainPosition, { seq, hash }: ChainPosition): ChainPosition | null {
    const head = { seq, hash }
    const known = this.#known.get(organizationId) ?? unknown
    const { committed, heads } = known
    // This process may have signed this head, or a later one, before it learned of its own commit.
    const lost =
      known.lost ??
      (committed !== null && base.seq < committed.seq ? committed : null) ??
      heads.find((each) => differ(each, base) || differ(each, head)) ??
      null
    if (lost !== null) {
      this.#set(organizationId, { ...known, lost })
      return lost
    }
    // The new hash covers `base`. Between other heads and `base` are entries of other processes.
    const others = heads.filter(({ seq }) => seq !== base.seq)
    this.#set(organizationId, { committed: head, heads: inOrder([...others, head]), lost })
    return null
  }

  /** `of` has returned the `checked` heads. */
  contains(organizationId: string, checked: readonly ChainPosition[], head: ChainPosition): void {
    const known = this.#known.get(organizationId) ?? unknown
    const others = known.heads.filter((each) => !checked.includes(each))
    this.#set(organizationId, { ...known, heads: inOrder([...others, head]) })
  }

  #set(organizationId: string, known: Known): void {
    this.#known.delete(organizationId)
    this.#known.set(organizationId, known)
    const [oldest] = this.#known.keys()
    if (this.#known.size > this.#most && oldest !== undefined) this.#known.delete(oldest)
  }
}

const differ = (a: ChainPosition, b: ChainPosition): boolean => a.seq === b.seq && a.hash !== b.hash

function inOrder(heads: readonly ChainPosition[]): readonly ChainPosition[] {
  const sorted = heads.toSorted((a, b) => a.seq - b.seq)
  const ordered = sorted.filter(({ seq }, index) => seq !== sorted[index + 1]?.seq)
  // The first head was not compared with the database for the longest time.
  return ordered.length > 16 ? ordered.toSpliced(1, 1) : ordered
}
