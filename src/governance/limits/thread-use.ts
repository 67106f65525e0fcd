import { performance } from 'node:perf_hooks'

/** An organization counts as served for this many milliseconds after its last request. */
const rememberedMilliseconds = 10_000
/** A measurement of the thread covers at least this many milliseconds. */
const busyWindow = 100
/** After this many milliseconds, the thread's work for a request counts only half. */
const halfLife = 2_000
/**
 * An organization uses more than its part of the thread if its use is more than this multiple of the mean use. Example:
 * with two organizations, the limit is 1.3 / 2 = 65 % of the thread's work.
 */
const unfair = 1.3
/**
 * An organization that uses less than this part of the thread's work never counts as using too much, however many
 * organizations there are.
 */
const leastUnfair = 0.25

/** The milliseconds that the thread worked. Older work counts less: after each `halfLife`, it counts only half. */
interface Used {
  amount: number
  at: number
}

function addTo(used: Used, amount: number, now: number): number {
  used.amount = used.amount * 2 ** ((used.at - now) / halfLife) + amount
  used.at = now
  return used.amount
}

/** How much this thread has to do, and whether it has to wait for a processor. */
export interface ThreadLoad {
  /** Whether the thread had much to do in the latest measurement. */
  isBusy(): boolean
  /**
   * A factor from 1 to `mostStrain` that multiplies the pause of an organization that uses too much. The factor
   * rises while the thread or the processors are overloaded, and falls otherwise. Overloaded processors make the thread
   * wait in the middle of its work.
   */
  strain(): number
}

const mostStrain = 16
/**
 * A measurement that finds an overload multiplies the strain by `rise`. Any other measurement multiplies the strain by
 * `fall` once for each window. Example: a measurement with three windows multiplies the strain by 0.87 three times.
 */
const rise = 1.2
const fall = 0.87
/** A thread that works for more than this part of the time is overloaded. */
const overloaded = 0.8
/** The processors are overloaded if the thread waits for a processor during more than this part of its work. */
const mostWaiting = 0.35
/**
 * If the thread works for at most this part of the time, its waiting does not show that the processors are overloaded.
 */
const leastWork = 0.1

/** One measurement of a thread. */
export interface Measured {
  /** The part of the time in which the thread worked, 0 to 1. */
  readonly utilization: number
  /** The part of the thread's work in which the thread waited for a processor, 0 to 1. */
  readonly waited: number
  /** The length of the measurement, in whole multiples of `busyWindow`. */
  readonly windows: number
}

export function strainAfter(strain: number, { utilization, waited, windows }: Measured): number {
  const isStrained = utilization > overloaded || (utilization > leastWork && waited > mostWaiting)
  return isStrained ? Math.min(strain * rise, mostStrain) : Math.max(strain * fall ** windows, 1)
}

/**
 * @param share The thread is busy if it works for more than this part of the time. While the strain is above 1,
 *   `leastWork` replaces `share`, because the thread or the processors were overloaded a short time ago.
 */
export function createThreadLoad(share: number): ThreadLoad {
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
    isBusy = utilization > (strain > 1 ? leastWork : share)
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

/** Measures how much of the thread each recently served organization has used. */
export function createUse(clock: () => number) {
  /** The recently served organizations, in the order of their last requests. */
  const served = new Map<string, Used & { servedAt: number }>()
  const usedByAll: Used = { amount: 0, at: 0 }

  const noteServed = (organizationId: string): void => {
    const now = clock()
    const entry = served.get(organizationId) ?? { amount: 0, at: now, servedAt: now }
    entry.servedAt = now
    served.delete(organizationId)
    served.set(organizationId, entry)
    for (const [each, { servedAt }] of served) {
      if (servedAt > now - rememberedMilliseconds) break
      served.delete(each)
    }
  }
  /**
   * Records how long the thread worked for a request. Returns whether the request's organization uses more than its
   * part.
   */
  const usesTooMuch = (organizationId: string, worked: number): boolean => {
    const now = clock()
    const all = addTo(usedByAll, worked, now)
    const used = served.get(organizationId)
    const part = Math.max(unfair / served.size, leastUnfair)
    return used !== undefined && addTo(used, worked, now) > part * all
  }
  return { noteServed, usesTooMuch, isContended: (): boolean => served.size > 1 }
}
