/** The thread handles other events after this many milliseconds of queued work. */
const budget = 1

const waiting: (() => void)[] = []

/**
 * Queues `work`. Queued functions run in the order of the calls, each with the microtasks that it starts. When a
 * hundred questions arrive together, only a few of them run before other events are handled. Otherwise the thread would
 * handle the database's answer to the current batch only after all questions. Until then this batch holds the chain
 * lock (docs/performance.md#turns-and-cheaper-appends). `work` must not throw.
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
  // This callback runs when no microtask is left. By then all microtasks of the present work have run, and count in its
  // time.
  queueMicrotask(() => {
    process.nextTick(() => {
      waiting.shift()
      if (waiting.length === 0) return
      if (performance.now() < end) runUntil(end)
      else setImmediate(runSome)
    })
  })
}
