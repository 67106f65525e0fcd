import { setTimeout as delay } from 'node:timers/promises'

/** Milliseconds. Only something that hangs takes this long, even on a machine several times slower than usual. */
export const patience = 90_000

/** Waits until `holds` returns true; fails with `what` after `patience`. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + patience
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`did not happen in time: ${what}`)
    await delay(10)
  }
}
