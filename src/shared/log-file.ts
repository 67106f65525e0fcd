import { closeSync, mkdirSync, openSync, fstatSync, renameSync, writeSync } from 'node:fs'
import { join } from 'node:path'

/** Bytes; a larger log is renamed once to `FILE.1`. */
const largest = 16 * 1024 * 1024

/** Gets whole lines of JSON, as pino writes them. */
export interface LineSink {
  write(line: string): void
}

/**
 * Appends to `folder/NAME.log` (mode 0600). Only one process may write to a file at a time. A full disk loses lines,
 * but does not stop the service.
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
        // The failure cannot be reported anywhere.
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

/** The line for a person at a terminal: warnings and errors in one line each; null for lower levels. */
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

/** If an error's message may not be logged, its name and code. */
function reasonOf({ message, name, code }: { message?: unknown; name?: unknown; code?: unknown }): unknown {
  const words = [name, code].filter((each) => typeof each === 'string' || typeof each === 'number')
  return message ?? words.join(' ')
}

const oneLine = (text: string): string => text.replaceAll(/\s*\n\s*/g, ' | ').replaceAll(/[\p{Cc}]/gu, ' ')
