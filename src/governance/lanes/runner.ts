import { setTimeout as delay } from 'node:timers/promises'
import { endTurns, renewTurns, takeLanes, type EndedTurn, type LaneRow } from '../../db/queries/lanes.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Config } from '../../shared/config.ts'
import type { SparseLog } from '../../shared/log.ts'
import { laneKinds, pauseAfter, type LaneKind } from './lanes.ts'

/** The right to work for one receiver, until its lease ends. */
export interface Lane {
  readonly kind: LaneKind
  readonly id: string
  readonly organizationId: string | null
  readonly message: unknown
  /** Turns in a row that have failed. */
  readonly failures: number
  /** Names this turn, and no other of any process. */
  readonly turn: string
}

/** What a turn says at its end. */
export interface Rest {
  /** Seconds until the next turn. null: when the lane is woken. */
  readonly dueIn: number | null
  /** Seconds in which no turn begins, although the lane is woken. */
  readonly pause?: number
  /** It pauses for the time of its kind, or for `pause` if that is longer. */
  readonly hasFailed?: boolean
  readonly isSlow?: boolean
  /** For operators, in the lane's row. Without a parameter, an address or a secret. */
  readonly error?: string
  /** The lane is no longer needed. */
  readonly isDone?: boolean
}

/** Works for lanes of one kind. */
export interface Sender {
  readonly kind: LaneKind
  /** Only these lanes. */
  readonly ids?: readonly string[]
  /** Before the first turn, and again until it has succeeded. */
  prepare?(): Promise<unknown>
  /** `signal` aborts when the process stops, and when another process has the lane. Throws: the turn has failed. */
  work(lane: Lane, signal: AbortSignal): Promise<Rest>
  /** Surrounds the statement that ends turns. */
  around?(ended: readonly EndedTurn[], end: () => Promise<unknown>): Promise<unknown>
  /** What the log says when a turn has failed. */
  readonly trouble: string
}

export interface Runner {
  /** Something has become due right now. Returns at once. */
  kick(kind: LaneKind): void
  /** Resolves when all turns have ended. What remains is done by other processes. */
  stop(): Promise<void>
}

interface Running {
  readonly config: Pick<Config, 'processId'>
  readonly db: Db
  readonly sparseLog: SparseLog
}

/** Other processes make lanes due too, and leases end. */
const lookMilliseconds = 1_000

/** Each process has one. It looks every second, and at once after `kick`. */
export function startRunner(
  context: Running,
  senders: readonly Sender[],
  milliseconds = lookMilliseconds,
): Runner {
  const kinds = new Map(senders.map((sender) => [sender.kind, new KindRunner(context, sender, milliseconds)]))
  const look = (): void => kinds.forEach((kind) => kind.look())
  const timer = setInterval(look, milliseconds)
  look()
  return {
    kick: (kind) => kinds.get(kind)?.kick(),
    async stop() {
      clearInterval(timer)
      await Promise.all([...kinds.values()].map((kind) => kind.stop()))
    },
  }
}

interface Turn {
  readonly lane: Lane
  readonly isAiling: boolean
  readonly ending: AbortController
  leasedAt: number
}

let turns = 0

class KindRunner {
  readonly #context: Running
  readonly #sender: Sender
  readonly #lookMilliseconds: number
  readonly #turns = new Map<string, Turn>()
  readonly #timers = new Set<NodeJS.Timeout>()
  #work = new Set<Promise<void>>()
  #ended: EndedTurn[] = []
  #taking: Promise<void> | null = null
  #renewing: Promise<void> | null = null
  #ending: Promise<void> | null = null
  #isTaking = false
  #isAskedAgain = false
  /** Due lanes may be left. */
  #isFull = false
  #isPrepared = false
  #isStopped = false

  constructor(context: Running, sender: Sender, milliseconds: number) {
    this.#context = context
    this.#sender = sender
    this.#lookMilliseconds = milliseconds
  }

  look(): void {
    this.kick()
    this.#renewing ??= this.#renew()
      .catch(() => undefined) // a lease outlasts a few failed renewals
      .finally(() => (this.#renewing = null))
  }

  kick(): void {
    if (this.#isStopped) return
    this.#isAskedAgain = true
    if (this.#isTaking) return
    this.#isTaking = true
    const { kind } = this.#sender
    this.#taking = this.#take().catch((error: unknown) => {
      const about = { err: error as Error, kind }
      this.#context.sparseLog.warn(`lanes ${kind}`, about, 'the lanes could not be read')
    })
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    for (const timer of this.#timers) clearTimeout(timer)
    for (const { ending } of this.#turns.values()) ending.abort()
    await this.#taking
    for (const { ending } of this.#turns.values()) ending.abort()
    await Promise.all(this.#work)
    await this.#ending
    await this.#renewing
  }

  async #take(): Promise<void> {
    try {
      if (!this.#isPrepared) await this.#sender.prepare?.()
      this.#isPrepared = true
      while (this.#isAskedAgain && !this.#isStopped) {
        this.#isAskedAgain = false
        await this.#takeFree()
        if (laneKinds[this.#sender.kind].inBatches) await this.#settled()
      }
    } finally {
      // Here and not after the promise: a kick between the two would be lost.
      this.#isTaking = false
    }
  }

  /** At the latest at the next look: one turn that hangs does not hold up the others. */
  async #settled(): Promise<void> {
    const late = new AbortController()
    const look = delay(this.#lookMilliseconds, undefined, { signal: late.signal }).catch(() => undefined)
    await Promise.race([Promise.all(this.#work), look])
    late.abort()
  }

  async #takeFree(): Promise<void> {
    const { kind, ids = null } = this.#sender
    const { atOnce, leaseSeconds, ofOrganization: mostOfOrganization } = laneKinds[kind]
    const most = atOnce - this.#turns.size
    this.#isFull = most <= 0
    if (this.#isFull) return
    const ailing = [...this.#turns.values()].filter(({ isAiling }) => isAiling).length
    const mostAiling = Math.max(0, Math.min(most, Math.floor(atOnce / 2) - ailing))
    turns += 1
    const turn = `${this.#context.config.processId}/${turns}`
    const taking = { kind, ids, turn, leaseSeconds, most, mostAiling, mostOfOrganization }
    const { rows } = await takeLanes(taking).execute(this.#context.db)
    for (const row of rows) this.#begin(row, turn)
    this.#isFull = rows.length === most
  }

  #begin(row: LaneRow, turn: string): void {
    const { kind } = this.#sender
    const { id, organization_id: organizationId, message, failures } = row
    const lane: Lane = { kind, id, organizationId, message, failures, turn }
    const begun: Turn = {
      lane,
      isAiling: row.is_ailing,
      ending: new AbortController(),
      leasedAt: performance.now(),
    }
    this.#turns.set(turn + id, begun)
    const work: Promise<void> = this.#run(begun).finally(() => {
      this.#work.delete(work)
      this.#turns.delete(turn + id)
      if (this.#isFull) this.kick()
    })
    this.#work.add(work)
  }

  async #run({ lane, ending, isAiling }: Turn): Promise<void> {
    const rest = await this.#sender.work(lane, ending.signal).catch((error: unknown): Rest => {
      // A turn that was asked to stop says nothing about its receiver.
      if (ending.signal.aborted) return { dueIn: 0 }
      this.#warn(lane, error)
      return { dueIn: 0, hasFailed: true }
    })
    const isCut = ending.signal.aborted && rest.hasFailed !== true
    const failures = rest.hasFailed === true ? lane.failures + 1 : isCut ? lane.failures : 0
    const own = rest.hasFailed === true ? pauseAfter(failures, laneKinds[lane.kind].pause) : 0
    const pause = Math.max(own, rest.pause ?? 0)
    // Not in the past: lanes with more to do come after those that have waited longer.
    const due = rest.dueIn === null ? null : Math.max(0, rest.dueIn)
    const ailing = failures > 0 || rest.isSlow === true || (isCut && isAiling)
    // PostgreSQL takes neither half a character nor a NUL, and would refuse the ends of all these turns.
    const error = rest.error?.slice(0, 500).toWellFormed().replaceAll('\0', '') ?? null
    const done = rest.isDone ?? false
    this.#ended.push({ id: lane.id, turn: lane.turn, due, pause, failures, ailing, error, done })
    if (due !== null) this.#lookIn(Math.max(due, pause) * 1_000)
    await (this.#ending ??= this.#end())
  }

  /** Soon, so that a short pause is not longer for want of a look. */
  #lookIn(milliseconds: number): void {
    if (milliseconds === 0 || milliseconds >= this.#lookMilliseconds * 2 || this.#isStopped) return
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      this.kick()
    }, milliseconds)
    this.#timers.add(timer)
  }

  /** If this fails, the lanes are taken again when their leases end. */
  async #end(): Promise<void> {
    const { kind, around = (_, end) => end() } = this.#sender
    while (this.#ended.length > 0) {
      const ended = this.#ended.splice(0)
      const end = () => endTurns(kind, ended).execute(this.#context.db)
      await around(ended, end).catch((error: unknown) =>
        this.#context.sparseLog.warn(
          `lanes ${kind}`,
          { err: error as Error, kind },
          'the end of turns could not be saved',
        ),
      )
    }
    this.#ending = null
  }

  /** Every third look, so that renewals may fail. A turn that has lost its lane is asked to stop. */
  async #renew(): Promise<void> {
    const { kind } = this.#sender
    const { leaseSeconds } = laneKinds[kind]
    const now = performance.now()
    const due = [...this.#turns.values()].filter(
      ({ leasedAt }) => now - leasedAt >= 3 * this.#lookMilliseconds,
    )
    if (due.length === 0) return
    const lanes = due.map(({ lane }) => lane)
    const { rows } = await renewTurns(kind, leaseSeconds, lanes).execute(this.#context.db)
    const kept = new Set(rows.map(({ id, turn }) => turn + id))
    for (const turn of due)
      if (kept.has(turn.lane.turn + turn.lane.id)) turn.leasedAt = now
      else turn.ending.abort()
  }

  #warn({ id, kind, organizationId }: Lane, error: unknown): void {
    const about = { err: error as Error, kind, lane: id, organization_id: organizationId ?? undefined }
    this.#context.sparseLog.warn(`lane ${kind} ${organizationId ?? id}`, about, this.#sender.trouble)
  }
}
