import type { ChildProcess } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'

/** A started server process. */
export interface Running {
  readonly pid: number
  /** Resolves when the process has ended, e.g. with `exit code 1` or `signal SIGKILL`. */
  readonly exited: Promise<string>
  /** Whether the process has ended. */
  gone(): boolean
  /**
   * Sends the signals of `Ending` to the process, one after the other, until the process has ended. Once `hurry` is
   * aborted, sends only SIGQUIT and SIGKILL. Resolves when the process has ended.
   */
  stop(hurry?: AbortSignal): Promise<void>
}

/**
 * The signals that end a process, in this order. Each number is the time to wait after the signal, in milliseconds. The
 * last signal should be SIGKILL.
 */
export type Ending = readonly (readonly [NodeJS.Signals, number])[]

/** Wraps a process that was just spawned. Throws if the process could not be started. */
export async function running(child: ChildProcess, program: string, ending: Ending): Promise<Running> {
  const exited = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => resolve(signal === null ? `exit code ${code}` : `signal ${signal}`))
    child.once('error', (error) => resolve(error.message))
  })
  if (child.pid === undefined) throw new Error(`\`${program}\` could not be started: ${await exited}`)
  let gone = false
  void exited.then(() => (gone = true))
  return {
    pid: child.pid,
    exited,
    gone: () => gone,
    stop: async (hurry) => {
      for (const [signal, patience] of ending) {
        if (gone) return
        if (hurry?.aborted === true && signal !== 'SIGKILL' && signal !== 'SIGQUIT') continue
        child.kill(signal)
        await Promise.race([exited, delay(patience, undefined, { ref: false }), aborted(hurry)])
      }
      await exited
    },
  }
}

function aborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal === undefined || signal.aborted) return
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
