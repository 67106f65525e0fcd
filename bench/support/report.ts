import { cpus } from 'node:os'

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2
}

/** Returns the rounded number as text, such as `12,345`. */
export function count(value: number): string {
  return Math.round(value).toLocaleString('en-US')
}

/**
 * Prints one line about a measurement: the numbers of both sides, their ratio, and the goal. The ratio of `ours` to
 * `theirs` must be at least the goal.
 */
export function compare(what: string, ours: number, theirs: number, unit: string, goal: number): void {
  const ratio = ours / theirs
  const verdict = ratio >= goal ? 'holds' : 'MISSED'
  say(
    `${what}: ${count(ours)} against ${count(theirs)} ${unit}, ${ratio.toFixed(2)} x (goal ${goal} x: ${verdict})`,
  )
}

export function say(line: string): void {
  process.stdout.write(`${line}\n`)
}

export function machine(): string {
  const all = cpus()
  return `${all.length} cores (${all[0]?.model.trim() ?? 'unknown'}), Node ${process.versions.node}`
}
