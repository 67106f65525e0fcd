/** Milliseconds of queued work until the thread handles other events. */
const budget = 1

const waiting: (() => void)[] = []

/**
 * Runs `work`, which must not throw, in the order of calls, each after the microtasks of the one before, with a pause
 * for other events after each millisecond. Otherwise, of a hundred requests of agents at once, all would start before
 * the thread reads the database's answer to the current batch (governance/audit/lane.ts), which holds the chain lock
 * meanwhile (docs/performance.md#turns-and-cheaper-appends).
 */
export function runInTurn(work: () => void): void {
  waiting.push(work)
  if (waiting.length === 1) setImmediate(runSome)
}

export const nextTurn = (): Promise<void> => new Promise(runInTurn)

function runSome(): void {
  runUntil(performance.now() + budget)
}

function runUntil(end: number): void {
  waiting[0]?.()
  // `nextTick` runs when no microtask is left, so the time of all that `waiting[0]` has started counts too.
  queueMicrotask(() => {
    process.nextTick(() => {
      waiting.shift()
      if (waiting.length === 0) return
      if (performance.now() < end) runUntil(end)
      else setImmediate(runSome)
    })
  })
}
