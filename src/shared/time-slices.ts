/** The thread handles other events after this many milliseconds of queued work. */
const budget = 1

const waiting: (() => void)[] = []

/**
 * Puts `work` into a queue. `work` must not throw. Queued functions run in the order of the calls. Each function starts
 * when the microtasks of the function before it have run. After each millisecond of queued work, the thread handles
 * other events. This matters if a hundred requests of agents arrive together. Without the queue, all of them would
 * start before the thread reads the database's answer to the current batch (governance/audit/lane.ts). During this
 * time, the batch would hold the chain lock (docs/performance.md#turns-and-cheaper-appends).
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
