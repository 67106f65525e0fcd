import type { Log } from './log.ts'

/** For lines that an outage would repeat: the first of a kind, then one every ten seconds, with how many more. */
export interface SparseLog {
  warn(kind: string, fields: object, message: string): void
  info(kind: string, fields: object, message: string): void
}

const everyMilliseconds = 10_000
const mostKinds = 1_000

export function createSparseLog(log: Log, now: () => number = () => performance.now()): SparseLog {
  const kinds = new Map<string, { until: number; leftOut: number }>()
  const write = (level: 'info' | 'warn', kind: string, fields: object, message: string): void => {
    const known = kinds.get(kind)
    if (known !== undefined && now() < known.until) {
      known.leftOut += 1
      return
    }
    if (kinds.size >= mostKinds) kinds.clear()
    kinds.set(kind, { until: now() + everyMilliseconds, leftOut: 0 })
    const leftOut = known?.leftOut ?? 0
    log[level]({ ...fields, ...(leftOut === 0 ? {} : { left_out: leftOut }) }, message)
  }
  return {
    warn: (kind, fields, message) => write('warn', kind, fields, message),
    info: (kind, fields, message) => write('info', kind, fields, message),
  }
}
