import { closeSync, mkdirSync, openSync, fstatSync, renameSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'

/** Maximum bytes of a log. A larger log is renamed to `FILE.1`. An older `FILE.1` is then replaced. */
const largest = 16 * 1024 * 1024

/** A destination of log lines. Each line is JSON, as pino writes it. */
export interface LineSink {
  write(line: string): void
}

/** The numbers of log lines of this process that could not be written. Metrics report them, because the log cannot. */
export const lostLines = { file: 0, terminal: 0 }

/**
 * Appends to `folder/NAME.log` (mode 0600). Several processes may write to one file: commands of operators share
 * `tool.log`. If the disk is full, lines are lost, but the service does not stop.
 */
export function logFile(folder: string, name: string, limit = largest): LineSink {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const path = join(folder, `${name}.log`)
  let file = openSync(path, 'a', 0o600)
  let size = fstatSync(file).size
  return {
    write(line) {
      try {
        if (size > limit) {
          // If another process has renamed the file already, this process must only open the new file.
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

/** True if the path still leads to the open file. */
function isAt(path: string, file: number): boolean {
  const there = statSync(path, { throwIfNoEntry: false })
  const open = fstatSync(file)
  return there?.ino === open.ino && there.dev === open.dev
}

/**
 * If a pipe is full, `terminal` waits until another program has read from the pipe. For one line, it waits at most
 * `mostWaits` times, and `wait` milliseconds each time. The whole process stands still during a wait.
 */
const [mostWaits, wait] = [50, 20]

/** Writes to a file descriptor, by default stderr. Lines are lost if the disk is full, or if nobody reads the pipe. */
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

/** Returns the line for a person at a terminal: a warning or an error in one line. Returns null for lower levels. */
export function forPeople(line: string): string | null {
  const entry = JSON.parse(line) as Entry
  if (entry.level < warn) return null
  const why = [entry.err, entry.failure].find((each) => each !== undefined)
  const reason = typeof why === 'object' && why !== null ? reasonOf(why) : why
  const ids = [entry.organization_id, entry.run_id, entry.step_id].filter((each) => typeof each === 'string')
  const place = ids.length === 0 ? '' : ` (${ids.join(', ')})`
  const text = [`${entry.msg ?? ''}${place}`, reason].filter((each) => typeof each === 'string').join(': ')
  const time = new Date(entry.time).toTimeString().slice(0, 8)
  return `${time} ${entry.process ?? ''} ${entry.level >= error ? 'error' : 'warning'}: ${oneLine(text)}\n`
}

/** Returns the error's message, or the error's name and code if the message may not be logged. */
function reasonOf({ message, name, code }: { message?: unknown; name?: unknown; code?: unknown }): unknown {
  const words = [name, code].filter((each) => typeof each === 'string' || typeof each === 'number')
  return message ?? words.join(' ')
}

const oneLine = (text: string): string => text.replaceAll(/\s*\n\s*/g, ' | ').replaceAll(/[\p{Cc}]/gu, ' ')
