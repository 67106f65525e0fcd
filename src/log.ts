import { pino, type Logger } from 'pino'
import { forPeople, logFile, type LineSink } from './log-file.ts'

export type Log = Logger

export interface LogOptions {
  readonly level: string
  /** Which program this is; also the name of its file. */
  readonly process: string
  readonly processId: string
  /** Folder of the whole log; null leaves it on stderr. */
  readonly folder: string | null
}

/**
 * JSON lines on stderr, or, with a folder, in a file there and only warnings and errors, readable, on stderr. Stdout
 * belongs to `ready` and progress. Nothing that holds parameters is ever passed to it.
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
    },
    folder === null ? stderr() : split(logFile(folder, process), stderr()),
  )
}

const stderr = () => pino.destination({ dest: 2, sync: true })

function split(whole: LineSink, people: LineSink): LineSink {
  return {
    write(line) {
      whole.write(line)
      const text = forPeople(line)
      if (text !== null) people.write(text)
    },
  }
}
