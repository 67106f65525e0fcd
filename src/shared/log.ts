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
  /** Folder of the full log; null: stderr. */
  readonly folder: string | null
}

/**
 * Writes JSON lines to stderr. If `folder` is not null, writes them to a file in this folder, and only warnings and
 * errors, in a readable form, to stderr. Stdout is for `ready` and progress. Callers never log the parameters of calls,
 * but errors may contain parameters. Therefore an error is always converted by `loggedError`, in every field.
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
