import { performance } from 'node:perf_hooks'

/** In milliseconds since a request or call of the organization last arrived or ended. */
const rememberedMilliseconds = 10_000
/** In milliseconds. An organization that was not served for so long is no company for others. */
const besideMilliseconds = 2_000
/** After this time, in milliseconds, the work for a request counts only half. */
const halfLife = 2_000
/** So many times the mean use is more than one's part: with two organizations, above 65 % of the work. */
const unfair = 1.3
/** Below this part of the thread's work, an organization never uses too much. */
const leastUnfair = 0.25
/** The weight of the latest value in `Served.heldTime`. */
const newPart = 0.2

/** Milliseconds of the thread's work, which halve after each `halfLife`. */
interface Used {
  amount: number
  at: number
}

interface Served extends Used {
  servedAt: number
  /** Requests or calls that wait or are in progress. */
  present: number
  /** The average in milliseconds for which it holds what it takes, with the pause after it. Newer ones count more. */
  heldTime: number
}

export interface Work {
  milliseconds: number
}

/** Knows which organizations a process serves, and how much of the JavaScript thread each of them uses. */
export class ThreadUse {
  readonly clock: () => number
  /** Whether the thread works for more than `busyShare` of the time. */
  readonly isBusy: () => boolean
  /** In the order in which they were last served. */
  readonly #served = new Map<string, Served>()
  readonly #all: Used = { amount: 0, at: 0 }
  #working: { readonly work: Work; readonly since: number } | null = null

  constructor(clock: () => number = () => performance.now(), isBusy: () => boolean = createIsBusy()) {
    this.clock = clock
    this.isBusy = isBusy
  }

  /** For each call, `ends` is called once. */
  begins(organizationId: string): void {
    this.#notes(organizationId).present += 1
    const since = this.clock() - rememberedMilliseconds
    for (const [each, { servedAt, present }] of this.#served) {
      if (servedAt > since) break
      if (present === 0) this.#served.delete(each)
    }
  }

  /** `worked`: milliseconds of the thread. Returns whether the organization uses more than its part. */
  ends(organizationId: string, worked: number): boolean {
    const served = this.#notes(organizationId)
    served.present -= 1
    const now = this.clock()
    const all = addTo(this.#all, worked, now)
    return addTo(served, worked, now) > Math.max(unfair / this.#served.size, leastUnfair) * all
  }

  noteHeld(organizationId: string, milliseconds: number): void {
    const served = this.#served.get(organizationId)
    if (served !== undefined) served.heldTime += (milliseconds - served.heldTime) * newPart
  }

  heldTime(organizationId: string): number {
    return this.#served.get(organizationId)?.heldTime ?? 0
  }

  /** Whether several organizations are served, or were in the last ten seconds. */
  isContended(): boolean {
    return this.#served.size > 1
  }

  /** Whether another organization was served in the last two seconds. */
  hasCompany(organizationId: string): boolean {
    const since = this.clock() - besideMilliseconds
    for (const [each, { servedAt }] of this.#served)
      if (each !== organizationId && servedAt > since) return true
    return false
  }

  /** From now on the thread works for `work`, until it works for another or nothing of it is left to do at once. */
  worksFor(work: Work): void {
    this.#stop()
    const mine = (this.#working = { work, since: this.clock() })
    // Runs when no microtask is left: the request has ended or waits.
    queueMicrotask(() =>
      process.nextTick(() => {
        if (this.#working === mine) this.#stop()
      }),
    )
  }

  stopsFor(work: Work): void {
    if (this.#working?.work === work) this.#stop()
  }

  #stop(): void {
    if (this.#working !== null) this.#working.work.milliseconds += this.clock() - this.#working.since
    this.#working = null
  }

  #notes(organizationId: string): Served {
    const now = this.clock()
    const served = this.#served.get(organizationId) ?? {
      amount: 0,
      at: now,
      servedAt: now,
      present: 0,
      heldTime: 0,
    }
    served.servedAt = now
    this.#served.delete(organizationId)
    this.#served.set(organizationId, served)
    return served
  }
}

function addTo(used: Used, amount: number, now: number): number {
  used.amount = used.amount * 2 ** ((used.at - now) / halfLife) + amount
  used.at = now
  return used.amount
}

/** The part of the time above which the thread is busy. */
const busyShare = 0.35
/** The shortest measurement, in milliseconds. */
const busyWindow = 100

/** Returns a function that tells whether the thread was busy in the latest measurement. */
export function createIsBusy(): () => boolean {
  let before = performance.eventLoopUtilization()
  let lookedAt = performance.now()
  let isBusy = false
  return () => {
    const now = performance.now()
    if (now - lookedAt < busyWindow) return isBusy
    const present = performance.eventLoopUtilization()
    isBusy = performance.eventLoopUtilization(present, before).utilization > busyShare
    lookedAt = now
    before = present
    return isBusy
  }
}
