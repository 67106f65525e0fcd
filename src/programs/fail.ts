import { WrongSettings } from '../shared/environment.ts'
import type { Log } from '../shared/log.ts'

/** One line for each problem: a stack trace would not help a person who has set a wrong variable. */
export function failStart(error: unknown): never {
  const message = error instanceof Error ? error.message : String(error)
  const lines = error instanceof WrongSettings ? error.lines : [message]
  process.stderr.write(lines.map((line) => `error: ${line}\n`).join(''))
  process.exit(1)
}

/** If `read` throws, prints the error and ends the process. */
export function orFail<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    return failStart(error)
  }
}

/** Node would print the whole uncaught error, including rows and parameters of the database. */
export function endAtUncaught(log: Log): void {
  process.once('uncaughtException', (error: unknown) => {
    log.fatal({ err: error }, 'the process ends because of an uncaught error')
    process.exit(1)
  })
}
