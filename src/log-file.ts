import { closeSync, mkdirSync, openSync, fstatSync, renameSync, writeSync } from 'node:fs'
import { join } from 'node:path'

/** A log that may not grow beyond this is set aside once, as `FILE.1`, in bytes. */
const largest = 16 * 1024 * 1024

/** Takes whole lines of JSON, as pino writes them. */
export interface LineSink {
  write(line: string): void
}

/**
 * Appends to `folder/NAME.log` (mode 0600). One process writes to a file of that name at a time. A disk that is full
 * loses lines, not the service.
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
          renameSync(path, `${path}.1`)
          closeSync(file)
          file = openSync(path, 'a', 0o600)
          size = 0
        }
        size += writeSync(file, line)
      } catch {
        // Nowhere is left to say it.
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
}

const warn = 40
const error = 50

/** For a person at a terminal: warnings and errors as one line each, anything below not at all. */
export function forPeople(line: string): string | null {
  const entry = JSON.parse(line) as Entry
  if (entry.level < warn) return null
  const why = [entry.err, entry.failure].find((each) => each !== undefined)
  const reason = typeof why === 'object' && why !== null ? reasonOf(why) : why
  const text = [entry.msg, reason].filter((each) => typeof each === 'string').join(': ')
  const time = new Date(entry.time).toTimeString().slice(0, 8)
  return `${time} ${entry.process ?? ''} ${entry.level >= error ? 'error' : 'warning'}: ${oneLine(text)}\n`
}

/** Of an error whose message may not be logged its name, and code if it has one. */
function reasonOf({ message, name, code }: { message?: unknown; name?: unknown; code?: unknown }): unknown {
  const words = [name, code].filter((each) => typeof each === 'string' || typeof each === 'number')
  return message ?? words.join(' ')
}

const oneLine = (text: string): string => text.replaceAll(/\s*\n\s*/g, ' | ').replaceAll(/[\p{Cc}]/gu, ' ')
