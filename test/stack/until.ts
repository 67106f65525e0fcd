import { setTimeout as delay } from 'node:timers/promises'

/** In milliseconds: only what hangs takes so long, on a machine several times slower than a free one too. */
export const patience = 90_000

/** Looks again until `holds` does; fails with `what` after `patience`. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + patience
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`never came about: ${what}`)
    await delay(10)
  }
}
