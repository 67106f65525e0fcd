/** Ends the command. `lines` say what was refused and what to change; they may hold text from elsewhere. */
export class Failure extends Error {
  readonly lines: readonly string[]
  readonly exitCode: number

  constructor(lines: readonly string[] | string, exitCode = 1) {
    const all = typeof lines === 'string' ? [lines] : lines
    super(all[0])
    this.lines = all
    this.exitCode = exitCode
  }
}

/** What the server has answered in place of a success. */
export class Refusal extends Failure {
  readonly status: number
  readonly code: string
  readonly details: readonly Detail[]

  constructor(status: number, code: string, details: readonly Detail[], lines: readonly string[]) {
    super(lines)
    this.status = status
    this.code = code
    this.details = details
  }
}

export interface Detail {
  readonly path: string
  readonly message: string
}

const mostSimilar = 5

/** "did you mean ..." for a name that does not exist; empty if no name is near. */
export function similarNames(wanted: string, names: readonly string[]): string[] {
  const most = Math.max(2, Math.floor(wanted.length / 3))
  const near = [...new Set(names)]
    .map((name) => [name, distance(wanted.toLowerCase(), name.toLowerCase())] as const)
    .filter(([name, far]) => far <= most || name.toLowerCase().includes(wanted.toLowerCase()))
    .toSorted(([, a], [, b]) => a - b)
    .slice(0, mostSimilar)
    .map(([name]) => `\`${name}\``)
  return near.length === 0 ? [] : [`did you mean ${near.join(' or ')}?`]
}

/** How many characters are to be changed, added or left out (Levenshtein), of the first 100. */
function distance(left: string, right: string): number {
  const [from, to] = [left.slice(0, 100), right.slice(0, 100)]
  let row = Array.from({ length: to.length + 1 }, (_, at) => at)
  for (let index = 0; index < from.length; index += 1) {
    const next = [index + 1]
    for (let at = 1; at <= to.length; at += 1)
      next.push(
        Math.min(
          (row[at] ?? 0) + 1,
          (next[at - 1] ?? 0) + 1,
          (row[at - 1] ?? 0) + (to[at - 1] === from[index] ? 0 : 1),
        ),
      )
    row = next
  }
  return row.at(-1) ?? 0
}
