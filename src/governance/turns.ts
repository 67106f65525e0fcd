/** How long is worked on in one go before whatever else waits for this thread, milliseconds. */
const budget = 1

const waiting: (() => void)[] = []

/**
 * Runs `work`, with all that follows from it at once, when it is its turn, in the order of the calls. Where a hundred
 * questions arrive together, or are answered together, they are dealt with a few at a time, so that the database's answer,
 * for which a whole batch waits under the chain lock, is noticed between them and not behind all of them
 * (docs/decisions/0060). `work` must not throw.
 */
export function later(work: () => void): void {
  waiting.push(work)
  if (waiting.length === 1) setImmediate(runSome)
}

/** Resolves when it is the caller's turn. */
export const turn = (): Promise<void> => new Promise(later)

function runSome(): void {
  runUntil(performance.now() + budget)
}

function runUntil(end: number): void {
  waiting[0]?.()
  // A tick that a microtask asks for comes when no microtask is left: what follows from this one is done and counted.
  queueMicrotask(() => {
    process.nextTick(() => {
      waiting.shift()
      if (waiting.length === 0) return
      if (performance.now() < end) runUntil(end)
      else setImmediate(runSome)
    })
  })
}
