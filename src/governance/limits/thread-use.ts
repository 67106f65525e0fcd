import { performance } from 'node:perf_hooks'

/** An organization counts as served for this many milliseconds after its last request. */
const rememberedMilliseconds = 10_000
/** Milliseconds between two measurements of whether the thread is busy. */
const busyWindow = 100
/** After this many milliseconds, the thread's work for a request counts only half. */
const halfLife = 2_000
/** An organization uses more than its part of the thread if it uses more than this multiple of the mean use. */
const unfair = 1.3
/**
 * An organization that uses less than this part of the thread's work is never slowed down, however many organizations
 * there are.
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

/**
 * Returns a function that says whether the thread worked for more than `share` of the time in the latest measurement.
 */
export function createBusyThread(share: number): () => boolean {
  let before = performance.eventLoopUtilization()
  let lookedAt = 0
  let isBusy = false
  return () => {
    const now = performance.now()
    if (now - lookedAt < busyWindow) return isBusy
    lookedAt = now
    const present = performance.eventLoopUtilization()
    isBusy = performance.eventLoopUtilization(present, before).utilization > share
    before = present
    return isBusy
  }
}

/** Measures how much of the thread each recently served organization has used. */
export function createUse(clock: () => number) {
  /** Organizations that were served recently, the latest last. */
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
