import { performance } from 'node:perf_hooks'

/** How long an organization counts as served after its last request. */
const rememberedMilliseconds = 10_000
/** The shortest measurement, in milliseconds. */
const busyWindow = 100
/** After this time, the work for a request counts only half. */
const halfLife = 2_000
/** So many times the mean use is more than one's part: with two organizations, above 65 % of the work. */
const unfair = 1.3
/** Below this part of the thread's work, an organization never uses too much. */
const leastUnfair = 0.25

/** Milliseconds of the thread's work, which halve after each `halfLife`. */
interface Used {
  amount: number
  at: number
}

function addTo(used: Used, amount: number, now: number): number {
  used.amount = used.amount * 2 ** ((used.at - now) / halfLife) + amount
  used.at = now
  return used.amount
}

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

/** Busy above `share`, or above `leastWork` while the strain is above 1: there was an overload just before. */
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

/** How much of the thread each recently served organization has used. */
export function createUse(clock: () => number) {
  /** In the order of their last requests. */
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
  /** Notes the work for a request, and returns whether its organization uses more than its part. */
  const usesTooMuch = (organizationId: string, worked: number): boolean => {
    const now = clock()
    const all = addTo(usedByAll, worked, now)
    const used = served.get(organizationId)
    const part = Math.max(unfair / served.size, leastUnfair)
    return used !== undefined && addTo(used, worked, now) > part * all
  }
  return { noteServed, usesTooMuch, isContended: (): boolean => served.size > 1 }
}
