import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  renameSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Called with one line of progress, without its newline. */
export type Log = (line: string) => void

/** Replaces a file. Other programs see the old or the new content, never a part of it, even after a crash. */
export function writeFileAtomic(path: string, text: string, mode: number): void {
  const temporary = `${path}.${process.pid}.new`
  writeFileSync(temporary, text, { mode })
  // umask changes the mode of a new file, and a file that a crash has left keeps its old mode. So set the mode again.
  chmodSync(temporary, mode)
  renameSync(temporary, path)
}

/** Creates a folder that other accounts cannot read, and returns its path. An existing folder keeps its mode. */
export function privateFolder(path: string): string {
  mkdirSync(path, { recursive: true, mode: 0o700 })
  return path
}

/**
 * Runs `work`, which must be synchronous. Files that `work` or its child processes create can only be read by this
 * account.
 */
export function creatingPrivately<T>(work: () => T): T {
  const mask = process.umask(0o077)
  try {
    return work()
  } finally {
    process.umask(mask)
  }
}

/** The maximum size of a log, in bytes. */
const largestLog = 16 * 1024 * 1024
/** Milliseconds between two checks of the size of a log. */
const boundMilliseconds = 10_000

/** The log file of a server that writes to the file itself. */
export interface ServerLog {
  readonly path: string
  /** File descriptor for the server's output. The caller closes it after the start. */
  readonly file: number
  /** The size of the file at this start, in bytes. Earlier starts have written these bytes. */
  readonly from: number
  /** Call this when the server has ended. */
  stop(): void
}

/**
 * Opens `folder/NAME.log` for the output of a server. While the server runs, a log of more than `limit` bytes is copied
 * to `NAME.log.1` and then emptied. Lines that the server writes during the copy can be lost. The server writes to a
 * file and not to a pipe, because a pipe breaks if the program at its other end ends first.
 */
export function serverLog(
  folder: string,
  name: string,
  {
    limit = largestLog,
    every = boundMilliseconds,
  }: { readonly limit?: number; readonly every?: number } = {},
): ServerLog {
  const path = join(privateFolder(folder), `${name}.log`)
  if (existsSync(path) && statSync(path).size > limit) renameSync(path, `${path}.1`)
  const file = openSync(path, 'a', 0o600)
  const timer = setInterval(() => {
    try {
      if (statSync(path).size <= limit) return
      copyFileSync(path, `${path}.1`)
      truncateSync(path)
    } catch {
      // The disk is full, or somebody has removed the file. The server continues, because its log is less important.
    }
  }, every).unref()
  return { path, file, from: statSync(path).size, stop: () => clearInterval(timer) }
}

/**
 * Returns the path of a program file. `name` is relative to the module at `base`, and has no extension. The extension
 * is `.ts` in the sources and `.js` in the build.
 */
export function programFile(name: string, base: string): string {
  return fileURLToPath(new URL(`${name}${base.endsWith('.ts') ? '.ts' : '.js'}`, base))
}
