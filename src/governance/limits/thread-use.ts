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
  readonly load: ThreadLoad
  /** In the order in which they were last served. */
  readonly #served = new Map<string, Served>()
  readonly #all: Used = { amount: 0, at: 0 }
  #working: { readonly work: Work; readonly since: number } | null = null

  constructor(clock: () => number = () => performance.now(), load: ThreadLoad = createThreadLoad()) {
    this.clock = clock
    this.load = load
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

export interface ThreadLoad {
  /** In the latest measurement. */
  isBusy(): boolean
  /**
   * From 1 to `mostStrain`: multiplies the pause of an organization that uses too much. Rises while the thread or the
   * processors are overloaded, and falls otherwise. Overloaded processors make the thread wait in the middle of its
   * work.
   */
  strain(): number
}

const mostStrain = 16
/** An overload multiplies the strain by `rise`; any other measurement by `fall`, once for each of its windows. */
const rise = 1.2
const fall = 0.87
/** Above it, the thread is overloaded. At most at `leastWork`, its waiting says nothing of the processors. */
const overloaded = 0.8
/** The processors are overloaded if the thread waits for one during more than this part of its work. */
const mostWaiting = 0.35
const leastWork = 0.1

export interface Measured {
  /** The part of the time in which the thread worked. */
  readonly utilization: number
  /** The part of its work in which it waited for a processor. */
  readonly waited: number
  /** Its length, in multiples of `busyWindow`. */
  readonly windows: number
}

export function strainAfter(strain: number, { utilization, waited, windows }: Measured): number {
  const isStrained = utilization > overloaded || (utilization > leastWork && waited > mostWaiting)
  return isStrained ? Math.min(strain * rise, mostStrain) : Math.max(strain * fall ** windows, 1)
}

/** Busy above `busyShare`, or above `leastWork` while the strain is above 1: there was an overload just before. */
export function createThreadLoad(): ThreadLoad {
  let before = performance.eventLoopUtilization()
  let cpuBefore = process.threadCpuUsage()
  let lookedAt = performance.now()
  let isBusy = false
  let strain = 1
  const look = (): void => {
    const now = performance.now()
    const passed = now - lookedAt
    if (passed < busyWindow) return
    const present = performance.eventLoopUtilization()
    const { utilization, active } = performance.eventLoopUtilization(present, before)
    const { user, system } = process.threadCpuUsage(cpuBefore)
    const waited = active === 0 ? 0 : 1 - (user + system) / 1_000 / active
    strain = strainAfter(strain, { utilization, waited, windows: Math.floor(passed / busyWindow) })
    isBusy = utilization > (strain > 1 ? leastWork : busyShare)
    lookedAt = now
    before = present
    cpuBefore = process.threadCpuUsage()
  }
  return {
    isBusy() {
      look()
      return isBusy
    },
    strain() {
      look()
      return strain
    },
  }
}
