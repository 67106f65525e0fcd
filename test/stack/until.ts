import { availableParallelism, loadavg } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'

/**
 * Milliseconds on a machine that is not overloaded. Only something that hangs takes this long. On an overloaded machine
 * each millisecond counts less.
 */
export const patience = 90_000

/** Waits until `holds` returns true; fails with `what` after `patience`. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  let [left, last] = [patience, performance.now()]
  while (!(await holds())) {
    const now = performance.now()
    left -= (now - last) / overload()
    last = now
    if (left < 0) throw new Error(`did not happen in time: ${what}`)
    await delay(10)
  }
}

/** How many processes share a processor. Is 1 on a machine with free processors. */
const overload = (): number => Math.max(1, (loadavg()[0] ?? 0) / availableParallelism())
