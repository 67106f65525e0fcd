import { setTimeout as delay } from 'node:timers/promises'

/** Looks again until `holds` does; fails with `what` after a time that only a hang takes. */
export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  patience = 20_000,
): Promise<void> {
  const deadline = Date.now() + patience
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`never came about: ${what}`)
    await delay(10)
  }
}
