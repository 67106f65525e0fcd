/** Milliseconds of work before other events of this thread get a turn. */
const budget = 1

const waiting: (() => void)[] = []

/**
 * Runs `work`, and the microtasks that it starts, when it is its turn, in the order of the calls. When a hundred
 * questions arrive together, only a few run before other events are handled. Otherwise the database's answer to the
 * current batch, which holds the chain lock, would be noticed only after all of them
 * (docs/performance.md#turns-and-cheaper-appends). `work` must not throw.
 */
export function runInTurn(work: () => void): void {
  waiting.push(work)
  if (waiting.length === 1) setImmediate(runSome)
}

/** Resolves when it is the caller's turn. */
export const nextTurn = (): Promise<void> => new Promise(runInTurn)

function runSome(): void {
  runUntil(performance.now() + budget)
}

function runUntil(end: number): void {
  waiting[0]?.()
  // The tick runs when no microtask is left: by then all microtasks of this work have run and count towards its time.
  queueMicrotask(() => {
    process.nextTick(() => {
      waiting.shift()
      if (waiting.length === 0) return
      if (performance.now() < end) runUntil(end)
      else setImmediate(runSome)
    })
  })
}
