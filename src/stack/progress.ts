import type { Log } from './files.ts'

/** Carries out one step of the start and says so: at once when it is slow, with its time when it is done. */
export type Step = <T>(what: string, work: () => Promise<T>) => Promise<T>

/** A step that is not done after this long is announced, in milliseconds. */
const slow = 1_000
/** A step that goes on says so this often, in milliseconds. */
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
