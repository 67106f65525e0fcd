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

/** A line has no newline. */
export type Log = (line: string) => void

/** Other programs see the old or the new content, never a part of it, even after a crash. */
export function writeFileAtomic(path: string, text: string, mode: number): void {
  const temporary = `${path}.${process.pid}.new`
  writeFileSync(temporary, text, { mode })
  // umask changes the mode of a new file, and a file that a crash has left keeps its old mode.
  chmodSync(temporary, mode)
  renameSync(temporary, path)
}

/** Other accounts cannot read the folder. An existing folder keeps its mode. */
export function privateFolder(path: string): string {
  mkdirSync(path, { recursive: true, mode: 0o700 })
  return path
}

/**
 * Runs `work`, which must be synchronous. Only this account can read the files that it or its child processes create.
 */
export function creatingPrivately<T>(work: () => T): T {
  const mask = process.umask(0o077)
  try {
    return work()
  } finally {
    process.umask(mask)
  }
}

/** The log of a server that writes to the file itself. */
export interface ServerLog {
  readonly path: string
  /** For the server's output. The caller closes it after the start. */
  readonly file: number
  /** Bytes that earlier starts have written. */
  readonly from: number
  /** Call this when the server has ended. */
  stop(): void
}

/**
 * Opens `folder/NAME.log`. While the server runs, a log of more than `limit` bytes is copied to `NAME.log.1` and then
 * emptied; lines that are written during the copy can be lost. It is a file, because a pipe breaks if the program at
 * its other end ends first.
 */
export function serverLog(
  folder: string,
  name: string,
  { limit = 16 * 1024 * 1024, every = 10_000 }: { limit?: number; every?: number } = {},
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
      // The disk is full, or somebody has removed the file. The server goes on.
    }
  }, every).unref()
  return { path, file, from: statSync(path).size, stop: () => clearInterval(timer) }
}

/** `name` is relative to `base` and has no extension: `.ts` in the sources, `.js` in the build. */
export function programFile(name: string, base: string): string {
  return fileURLToPath(new URL(`${name}${base.endsWith('.ts') ? '.ts' : '.js'}`, base))
}
