import type { ChildProcess } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'

export interface Running {
  readonly pid: number
  /** How the process has ended, e.g. `exit code 1` or `signal SIGKILL`. */
  readonly exited: Promise<string>
  gone(): boolean
  /** Sends the signals one after the other; once `hurry` is aborted, only SIGQUIT and SIGKILL. */
  stop(hurry?: AbortSignal): Promise<void>
}

/** The signals that end a process, each with the milliseconds to wait after it. The last one should be SIGKILL. */
export type Ending = readonly (readonly [NodeJS.Signals, number])[]

/** Throws if the process that was just spawned could not be started. */
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
