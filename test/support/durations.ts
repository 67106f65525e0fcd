import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/*
 * How long each test file took when `RECORD_DURATIONS=1 npm test` was run last, in seconds, for the files that took
 * more than `others`. The runner starts the longest files first, and says how long the rest takes.
 */

const path = fileURLToPath(new URL('durations.json', import.meta.url))
const others = 1

let known: Readonly<Record<string, number>> = {}
try {
  known = JSON.parse(readFileSync(path, 'utf8')) as Record<string, number>
} catch {
  // Nothing is recorded.
}

/** `file` is relative to the repository. */
export const secondsOf = (file: string): number => known[file] ?? others

export function recordDurations(took: readonly (readonly [file: string, seconds: number])[]): void {
  const long = took
    .filter(([, seconds]) => seconds > others)
    .map(([file, seconds]) => [file, Math.round(seconds)] as const)
    .sort(([a], [b]) => a.localeCompare(b))
  writeFileSync(path, `${JSON.stringify(Object.fromEntries(long), null, 2)}\n`)
}
