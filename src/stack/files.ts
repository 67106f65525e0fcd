import { chmodSync, existsSync, mkdirSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Takes one line of progress, without its newline. */
export type Log = (line: string) => void

/** Writes `text` so that a reader, or a crash, sees the old file or the new one and never a part of it. */
export function writeFileAtomic(path: string, text: string, mode: number): void {
  const temporary = `${path}.${process.pid}.new`
  writeFileSync(temporary, text, { mode })
  // The mode given at creation is masked by umask, and ignored for a file that a crash left behind.
  chmodSync(temporary, mode)
  renameSync(temporary, path)
}

/** Creates a folder that other accounts cannot look into; an existing one keeps its mode. */
export function privateFolder(path: string): string {
  mkdirSync(path, { recursive: true, mode: 0o700 })
  return path
}

/**
 * Runs `work`, which must not wait; what it creates, and what a child that it starts creates, is for this account alone.
 */
export function creatingPrivately<T>(work: () => T): T {
  const mask = process.umask(0o077)
  try {
    return work()
  } finally {
    process.umask(mask)
  }
}

/** Sets a log file aside as `FILE.1` once it is larger than `limit` bytes, so that logs do not fill the disk. */
export function rotateLog(path: string, limit = 16 * 1024 * 1024): void {
  if (existsSync(path) && statSync(path).size > limit) renameSync(path, `${path}.1`)
}

/** The path of a program file beside (or above) the module at `base`: `.ts` from sources, `.js` from the build. */
export function programFile(name: string, base: string): string {
  return fileURLToPath(new URL(`${name}${base.endsWith('.ts') ? '.ts' : '.js'}`, base))
}
