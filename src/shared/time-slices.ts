/** The thread handles other events after this many milliseconds of queued work. */
const budget = 1

const waiting: (() => void)[] = []

/**
 * Queues `work`, which must not throw. Queued functions run in the order of the calls. Each one starts when the
 * microtasks of the previous one have run. If a hundred requests of agents arrive together, only a few start before the
 * thread handles other events. Otherwise the thread would read the database's answer to the current batch
 * (governance/audit/lane.ts) only after all requests. Until then, this batch holds the chain lock
 * (docs/performance.md#turns-and-cheaper-appends).
 */
export function runInTurn(work: () => void): void {
  waiting.push(work)
  if (waiting.length === 1) setImmediate(runSome)
}

/** Resolves when the queue reaches this entry. */
export const nextTurn = (): Promise<void> => new Promise(runInTurn)

function runSome(): void {
  runUntil(performance.now() + budget)
}

function runUntil(end: number): void {
  waiting[0]?.()
  // The callback of `nextTick` runs when no microtask is left. So the time of all microtasks that `waiting[0]` has
  // started counts too.
  queueMicrotask(() => {
    process.nextTick(() => {
      waiting.shift()
      if (waiting.length === 0) return
      if (performance.now() < end) runUntil(end)
      else setImmediate(runSome)
    })
  })
}
