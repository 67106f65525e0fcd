import type { Log } from './files.ts'

/**
 * Runs one step of the start. If the step becomes slow, logs a line with the duration so far, and repeats this line
 * while the step runs. When the step is done, logs a line with the whole duration.
 */
export type Step = <T>(what: string, work: () => Promise<T>) => Promise<T>

/** A step that takes longer than this many milliseconds is slow. */
const slow = 1_000
/** Milliseconds between two lines about a slow step. */
const reminder = 15_000

export function createSteps(log: Log): Step {
  return async (what, work) => {
    const began = performance.now()
    const seconds = (): string => `${((performance.now() - began) / 1_000).toFixed(1)} s`
    let timer = setTimeout(function again() {
      log(`${what} ... (${seconds()})`)
      timer = setTimeout(again, reminder)
    }, slow)
    try {
      const result = await work()
      log(`${what}: done (${seconds()})`)
      return result
    } finally {
      clearTimeout(timer)
    }
  }
}
