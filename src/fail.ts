import type { Log } from './log.ts'

/** Ends the process with one line on what to change: a stack says nothing to whoever set a variable wrong. */
export function failStart(error: unknown): never {
  process.stderr.write(`error: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}

/** What `read` answers; a process that cannot have it does not start. */
export function orFail<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    return failStart(error)
  }
}

/** Ends the process at an error that nobody caught: Node would print all that it carries, and so rows and parameters. */
export function endAtUncaught(log: Log): void {
  process.once('uncaughtException', (error: unknown) => {
    log.fatal({ err: error }, 'the process ends: nobody caught an error')
    process.exit(1)
  })
}
