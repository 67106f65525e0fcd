import { DomainError } from '../errors.ts'
import type { ThreadUse } from './thread-use.ts'

/** What a kind of work may take. An amount is a count of requests or calls, or bytes. */
export interface Limits {
  /** For all organizations together. More is taken only while nothing else is in progress. */
  readonly total?: number
  /** For one organization, with what it keeps. More is taken only while it has nothing else. */
  readonly most: number
  /** For one organization while the process serves others too, without what it keeps. */
  readonly beside?: number
  /** In the line of one organization. Further ones are refused. */
  readonly line?: number
  readonly patience?: Patience
  readonly pause?: Pause
}

/** What waits longer is given up. */
export interface Patience {
  readonly milliseconds: number
  readonly late: () => unknown
  /** An aborted wait ends with `late` too, and not with the signal's reason. */
  readonly alsoAborted?: boolean
}

/**
 * While others are served, what an organization took becomes free only after a pause, if the thread is busy and the
 * organization uses more than its part of it (thread-use.ts). The pause is `pauseFactor` times as long as the work, and
 * longer under strain, so that most of the thread is left to others.
 */
export interface Pause {
  /** In milliseconds. */
  readonly longest: number
  /** The pause always has these milliseconds, also for an organization that uses little. */
  readonly always?: number
  /** The organization pauses also if the thread is not busy. */
  readonly whileIdle?: boolean
  /** The whole duration counts, because the database did most of the work. Otherwise the thread's work counts. */
  readonly counts?: 'duration'
  /** The pause ends early if the thread is idle, or if no other organization was served in two seconds. */
  readonly endsEarly?: boolean
}

/** What `Limits.line` is if the table does not say. */
export const usualLine = 1_000
const pauseFactor = 8
/** So many times the thread's own work counts: the rest was work for others. Of 100 ms with 1 ms of work, 8 count. */
const mostWaited = 8
/** Milliseconds between two checks whether a pause is still needed. */
const pauseStep = 50

export interface Permit {
  /** Until it waits or the thread works for another. Call it before long work, or the organization need not pause. */
  works(): void
  /** Milliseconds that the thread has already worked for it. */
  adds(milliseconds: number): void
  /** The work has ended, but `amount` stays in use. It counts for the organization alone, until `release`. */
  keep(amount: number): void
  /** It becomes free, sometimes only after a pause. A second call does nothing. */
  release(): void
}

interface Asked {
  readonly amount?: number
  /** It is admitted only while nothing else is in progress, and nothing else beside it. */
  readonly alone?: boolean
  readonly signal?: AbortSignal
  readonly patience?: Patience | undefined
}

interface Waiting {
  readonly amount: number
  readonly alone: boolean
  readonly admit: () => void
  readonly giveUp: (reason: unknown) => void
}

interface Line {
  readonly organizationId: string
  working: number
  kept: number
  readonly waiting: Waiting[]
}

/**
 * Divides one kind of work of a process between organizations, which take turns. What waits for others comes next; what
 * waits for its own organization delays nobody. The holder of a permit never asks for a second one of the same kind, so
 * everything is admitted in the end.
 */
export class FairShare {
  readonly #limits: Limits
  readonly #thread: ThreadUse | null
  /** The organizations that have something or wait. */
  readonly #lines = new Map<string, Line>()
  /** The lines in which something waits, in the order of their turns. */
  readonly #turns = new Set<Line>()
  #permits = 0
  #working = 0
  #isAlone = false

  /** Without `thread`, nobody pauses, and there is no limit beside others. */
  constructor(limits: Limits, thread: ThreadUse | null = null) {
    this.#limits = limits
    this.#thread = thread
  }

  /**
   * Throws `rate_limited` if the line is full, the signal's reason if it is aborted, and `Patience.late` if it waits too
   * long.
   */
  async enter(organizationId: string, asked: Asked = {}): Promise<Permit> {
    const { amount = 1, alone = false, signal, patience = this.#limits.patience } = asked
    const aborted = (): unknown => (patience?.alsoAborted === true ? patience.late() : signal?.reason)
    if (signal?.aborted === true) throw aborted()
    const line = this.#lines.get(organizationId) ?? { organizationId, working: 0, kept: 0, waiting: [] }
    if (line.waiting.length >= (this.#limits.line ?? usualLine)) throw lineIsFull(line.waiting.length)
    this.#lines.set(organizationId, line)
    this.#thread?.begins(organizationId)
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined
      const out = (): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
        line.waiting.splice(line.waiting.indexOf(entry), 1)
        if (line.waiting.length === 0) this.#turns.delete(line)
      }
      const entry: Waiting = {
        amount,
        alone,
        admit: () => {
          out()
          resolve(this.#permit(line, amount, alone))
        },
        giveUp: (reason) => {
          out()
          this.#thread?.ends(organizationId, 0)
          this.#admit()
          this.#forget(line)
          reject(reason)
        },
      }
      const onAbort = (): void => entry.giveUp(aborted())
      line.waiting.push(entry)
      this.#turns.add(line)
      this.#admit()
      if (!line.waiting.includes(entry)) return
      signal?.addEventListener('abort', onAbort, { once: true })
      if (patience !== undefined)
        timer = setTimeout(() => entry.giveUp(patience.late()), patience.milliseconds)
    })
  }

  /** Holds a permit during `work`. Throws the errors of `enter`. */
  async hold<T>(organizationId: string, work: (permit: Permit) => Promise<T>, asked?: Asked): Promise<T> {
    const permit = await this.enter(organizationId, asked)
    try {
      return await work(permit)
    } finally {
      permit.release()
    }
  }

  isContended(): boolean {
    return this.#thread?.isContended() ?? false
  }

  get waiting(): number {
    return [...this.#turns].reduce((sum, { waiting }) => sum + waiting.length, 0)
  }

  keptBy(organizationId: string): number {
    return this.#lines.get(organizationId)?.kept ?? 0
  }

  /** Milliseconds until the last in the organization's line probably has its turn. */
  untilTurn(organizationId: string): number {
    if (!this.isContended()) return 0
    const waiting = this.#lines.get(organizationId)?.waiting.length ?? 0
    return (waiting * (this.#thread?.heldTime(organizationId) ?? 0)) / (this.#limits.beside ?? 1)
  }

  /** The last in the longest line is given up. */
  turnAway(reason: unknown): void {
    const [first, ...lines] = this.#turns
    const isLonger = (line: Line, than: Line): boolean => line.waiting.length > than.waiting.length
    const longest = lines.reduce((last, line) => (last && isLonger(line, last) ? line : last), first)
    longest?.waiting.at(-1)?.giveUp(reason)
  }

  #admit(): void {
    for (let line = this.#next(); line !== null; line = this.#next()) {
      // The next turn of this organization comes after all others.
      this.#turns.delete(line)
      this.#turns.add(line)
      line.waiting[0]?.admit()
    }
  }

  #next(): Line | null {
    if (this.#isAlone) return null
    for (const line of this.#turns) {
      const [first] = line.waiting
      if (first === undefined || !this.#fits(line, first.amount)) continue
      const hasRoom = this.#working + first.amount <= (this.#limits.total ?? Infinity)
      return this.#permits === 0 || (hasRoom && !first.alone) ? line : null
    }
    return null
  }

  #fits({ working, kept }: Line, amount: number): boolean {
    const { most, beside = most } = this.#limits
    if (working + kept > 0 && working + kept + amount > most) return false
    return working === 0 || working + amount <= beside || !this.isContended()
  }

  #permit(line: Line, amount: number, alone: boolean): Permit {
    this.#permits += 1
    this.#working += amount
    if (alone) this.#isAlone = true
    line.working += amount
    const began = this.#thread?.clock() ?? 0
    const work = { milliseconds: 0 }
    let [isWorking, isReleased, kept] = [true, false, amount]
    const keep = (left: number): void => {
      if (isWorking) {
        isWorking = false
        this.#permits -= 1
        this.#working -= amount
        if (alone) this.#isAlone = false
        line.working -= amount
        line.kept += amount
      }
      line.kept -= kept - left
      kept = left
      this.#admit()
      this.#forget(line)
    }
    return {
      works: () => {
        if (!isReleased) this.#thread?.worksFor(work)
      },
      adds: (milliseconds) => {
        work.milliseconds += milliseconds
      },
      keep: (left) => keep(Math.min(left, kept)),
      release: () => {
        if (isReleased) return
        isReleased = true
        this.#thread?.stopsFor(work)
        const pause = this.#pauseAfter(line.organizationId, began, work.milliseconds)
        if (!isWorking) return keep(0)
        this.#whenPaused(line.organizationId, pause, () => {
          this.#thread?.noteHeld(line.organizationId, this.#thread.clock() - began)
          keep(0)
        })
      },
    }
  }

  /** In milliseconds. */
  #pauseAfter(organizationId: string, began: number, worked: number): number {
    const [thread, { pause }] = [this.#thread, this.#limits]
    if (thread === null) return 0
    const isUnfair = thread.ends(organizationId, worked)
    if (pause === undefined || !thread.isContended()) return 0
    if (pause.always !== undefined) return pause.always
    if (!isUnfair || !(pause.whileIdle === true || thread.load.isBusy())) return 0
    const took = thread.clock() - began
    const counted = pause.counts === 'duration' ? took : Math.min(Math.max(took, worked), worked * mostWaited)
    return Math.min(counted * pauseFactor * thread.load.strain(), pause.longest)
  }

  #whenPaused(organizationId: string, left: number, free: () => void): void {
    const [thread, { pause }] = [this.#thread, this.#limits]
    const isNeeded = pause?.endsEarly !== true || (thread?.load.isBusy() && thread.hasCompany(organizationId))
    if (left <= 0 || !isNeeded) return free()
    const step = pause?.endsEarly === true ? Math.min(left, pauseStep) : left
    setTimeout(() => this.#whenPaused(organizationId, left - step, free), step).unref()
  }

  #forget(line: Line): void {
    const isIdle = line.working + line.kept + line.waiting.length === 0
    if (isIdle && this.#lines.get(line.organizationId) === line) this.#lines.delete(line.organizationId)
  }
}

const lineIsFull = (waiting: number): DomainError =>
  new DomainError(
    'rate_limited',
    `${waiting} requests of the organization are waiting already: send fewer at the same time`,
    [],
    1,
  )
