import { pino, type Logger } from 'pino'
import { isError, loggedError } from './log-error.ts'
import { forPeople, logFile, terminal, type LineSink } from './log-file.ts'

export { isError, wordsOf } from './log-error.ts'
export type Log = Logger

export interface LogOptions {
  readonly level: string
  /** The name of the program, and of its log file. */
  readonly process: string
  readonly processId: string
  /** The folder of the full log. Is null if the full log goes to stderr. */
  readonly folder: string | null
}

/**
 * Creates a log of JSON lines. If `folder` is null, all lines go to stderr. Otherwise all lines go to a file in this
 * folder, and stderr gets only warnings and errors, in a readable form. Stdout is for `ready` and progress. Callers
 * never log the parameters of calls, but an error may contain parameters. So `loggedError` converts errors in all
 * fields.
 */
export function createLog({ level, process, processId, folder }: LogOptions): Log {
  return pino(
    {
      level,
      base: { process, process_id: processId },
      redact: [
        'req.headers.authorization',
        'req.headers.cookie',
        '*.password',
        '*.api_key',
        '*.params',
        '*.inputs',
      ],
      serializers: { err: (value: unknown) => loggedError(value) },
      formatters: { log: reduced },
      hooks: {
        logMethod(args, method) {
          const [first, ...rest] = args as unknown[]
          const about = isError(first) ? { err: first } : first
          // If the caller passes no message, pino would write the message of the error, which may quote values.
          const isAlone = typeof Object(about).err === 'object' && typeof rest[0] !== 'string'
          const words = isAlone ? ['an error', ...rest] : rest
          const safe = words.map((each) => (isError(each) ? loggedError(each) : each))
          Reflect.apply(method, this, [about, ...safe])
        },
      },
    },
    folder === null ? terminal() : split(logFile(folder, process), terminal()),
  )
}

/** Converts errors in all fields but `err`, which has its own serializer. */
const reduced = (entry: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(entry).map(([name, value]) => [
      name,
      name !== 'err' && isError(value) ? loggedError(value) : value,
    ]),
  )

function split(whole: LineSink, people: LineSink): LineSink {
  return {
    write(line) {
      whole.write(line)
      const text = forPeople(line)
      if (text !== null) people.write(text)
    },
  }
}
