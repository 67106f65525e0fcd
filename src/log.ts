import { pino, type Logger } from 'pino'

export type Log = Logger

/** JSON lines on stderr; stdout belongs to `ready` and progress. Nothing that holds parameters is ever passed to it. */
export function createLog(level: string, bindings: Record<string, string>): Log {
  return pino(
    {
      level,
      base: bindings,
      redact: [
        'req.headers.authorization',
        'req.headers.cookie',
        '*.password',
        '*.api_key',
        '*.params',
        '*.inputs',
      ],
    },
    pino.destination({ dest: 2, sync: true }),
  )
}
