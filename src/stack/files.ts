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

/** Writes `text` so that a reader sees the old or the new file, never a part, even after a crash. */
export function writeFileAtomic(path: string, text: string, mode: number): void {
  const temporary = `${path}.${process.pid}.new`
  writeFileSync(temporary, text, { mode })
  // The mode at creation is masked by umask, and ignored for a file left by a crash.
  chmodSync(temporary, mode)
  renameSync(temporary, path)
}

/** Creates a folder that other accounts cannot read. An existing folder keeps its mode. */
export function privateFolder(path: string): string {
  mkdirSync(path, { recursive: true, mode: 0o700 })
  return path
}

/** Runs `work`, which must be synchronous. Only this account can read files that `work` or its children create. */
export function creatingPrivately<T>(work: () => T): T {
  const mask = process.umask(0o077)
  try {
    return work()
  } finally {
    process.umask(mask)
  }
}

/** In bytes. */
const largestLog = 16 * 1024 * 1024
const boundMilliseconds = 10_000

/** The log file of a server that writes to the file itself. */
export interface ServerLog {
  readonly path: string
  /** File descriptor for the server's output. The caller closes it after the start. */
  readonly file: number
  /** Bytes that earlier starts have written to the file. */
  readonly from: number
  /** Call this when the server has ended. */
  stop(): void
}

/**
 * Opens `folder/NAME.log` for the output of a server. While the server runs, a log of more than `limit` bytes is copied
 * to `NAME.log.1` and emptied. So the server writes to the same file all the time, without a reader that could end
 * earlier. Lines that the server writes during the copy can be lost.
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
      // The disk is full, or somebody has removed the file. The server continues.
    }
  }, every).unref()
  return { path, file, from: statSync(path).size, stop: () => clearInterval(timer) }
}

/** The path of a program file relative to the module at `base`: `.ts` in sources, `.js` in the build. */
export function programFile(name: string, base: string): string {
  return fileURLToPath(new URL(`${name}${base.endsWith('.ts') ? '.ts' : '.js'}`, base))
}
