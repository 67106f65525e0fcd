import { closeSync, mkdirSync, openSync, fstatSync, renameSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'

/** A larger log becomes `FILE.1`, in place of an older one. */
const largest = 16 * 1024 * 1024

/** Lines are JSON, as pino writes it. */
export interface LineSink {
  write(line: string): void
}

/** Metrics report these, because the log cannot. */
export const lostLines = { file: 0, terminal: 0 }

/** `folder/NAME.log` (0600), to which several processes may append. If the disk is full, lines are lost. */
export function logFile(folder: string, name: string, limit = largest): LineSink {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const path = join(folder, `${name}.log`)
  let file = openSync(path, 'a', 0o600)
  let size = fstatSync(file).size
  return {
    write(line) {
      try {
        if (size > limit) {
          // Another process may have renamed the file already.
          if (isAt(path, file)) renameSync(path, `${path}.1`)
          const next = openSync(path, 'a', 0o600)
          closeSync(file)
          file = next
          size = fstatSync(file).size
        }
        size += writeSync(file, line)
      } catch {
        lostLines.file += 1
      }
    },
  }
}

function isAt(path: string, file: number): boolean {
  const there = statSync(path, { throwIfNoEntry: false })
  const open = fstatSync(file)
  return there?.ino === open.ino && there.dev === open.dev
}

/** For a line in a full pipe, so many times so many milliseconds, in which the whole process stands still. */
const [mostWaits, wait] = [50, 20]

/** By default stderr. Lines are lost if the disk is full, or if nobody reads the pipe. */
export function terminal(descriptor = 2): LineSink {
  const sleeper = new Int32Array(new SharedArrayBuffer(4))
  const write = (bytes: Buffer): number => {
    try {
      return writeSync(descriptor, bytes)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      Atomics.wait(sleeper, 0, 0, wait)
      return 0
    }
  }
  return {
    write(line) {
      try {
        let rest: Buffer = Buffer.from(line)
        for (let waits = 0; rest.length > 0; waits += 1) {
          if (waits > mostWaits) throw new Error('nobody reads')
          rest = rest.subarray(write(rest))
        }
      } catch {
        lostLines.terminal += 1
      }
    },
  }
}

interface Entry {
  readonly level: number
  readonly time: number
  readonly process?: string
  readonly msg?: string
  readonly err?: unknown
  readonly failure?: unknown
  readonly organization_id?: unknown
  readonly run_id?: unknown
  readonly step_id?: unknown
}

const warn = 40
const error = 50

/** A warning or an error in one line; null for lower levels. */
export function forPeople(line: string): string | null {
  const entry = JSON.parse(line) as Entry
  if (entry.level < warn) return null
  const why = [entry.err, entry.failure].find((each) => each !== undefined)
  const reason = typeof why === 'object' && why !== null ? reasonOf(why) : why
  const ids = [entry.organization_id, entry.run_id, entry.step_id].filter((each) => typeof each === 'string')
  const about = ids.length === 0 ? '' : ` (${ids.join(', ')})`
  const text = [`${entry.msg ?? ''}${about}`, reason].filter((each) => typeof each === 'string').join(': ')
  const time = new Date(entry.time).toTimeString().slice(0, 8)
  return `${time} ${entry.process ?? ''} ${entry.level >= error ? 'error' : 'warning'}: ${oneLine(text)}\n`
}

/** Name and code if the message may not be logged. */
function reasonOf({ message, name, code }: { message?: unknown; name?: unknown; code?: unknown }): unknown {
  const words = [name, code].filter((each) => typeof each === 'string' || typeof each === 'number')
  return message ?? words.join(' ')
}

const oneLine = (text: string): string => text.replaceAll(/\s*\n\s*/g, ' | ').replaceAll(/[\p{Cc}]/gu, ' ')
