import { pino, type Logger } from 'pino'
import { isError, loggedError } from './log-error.ts'
import { forPeople, logFile, terminal, type LineSink } from './log-file.ts'

export { isError, wordsOf } from './log-error.ts'
export type Log = Logger

export interface LogOptions {
  readonly level: string
  readonly process: string
  readonly processId: string
  /** Null: the full log goes to stderr. */
  readonly folder: string | null
}

/**
 * JSON lines to stderr, or with `folder` to a file, and then only warnings and errors to stderr, in a readable form.
 * Stdout is for `ready` and progress. Callers never log parameters of calls, but errors may contain them, so
 * `loggedError` converts errors in all fields.
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
          // Without a message, pino would write that of the error, which may quote values.
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

/** `err` has its own serializer. */
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

/** For lines that an outage would repeat: the first of a kind, then one every ten seconds, with how many more. */
export interface SparseLog {
  warn(kind: string, fields: object, message: string): void
  info(kind: string, fields: object, message: string): void
}

export function createSparseLog(log: Log, now: () => number = () => performance.now()): SparseLog {
  const kinds = new Map<string, { until: number; leftOut: number }>()
  const write = (level: 'info' | 'warn', kind: string, fields: object, message: string): void => {
    const known = kinds.get(kind)
    if (known !== undefined && now() < known.until) {
      known.leftOut += 1
      return
    }
    if (kinds.size >= 1_000) kinds.clear()
    kinds.set(kind, { until: now() + 10_000, leftOut: 0 })
    const leftOut = known?.leftOut ?? 0
    log[level]({ ...fields, ...(leftOut === 0 ? {} : { left_out: leftOut }) }, message)
  }
  return {
    warn: (kind, fields, message) => write('warn', kind, fields, message),
    info: (kind, fields, message) => write('info', kind, fields, message),
  }
}
