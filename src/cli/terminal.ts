import { createInterface } from 'node:readline/promises'
import { stripVTControlCharacters, styleText } from 'node:util'
import { shownLine, shownText } from '../shared/shown-text.ts'
import { Failure } from './failure.ts'

/*
 * What a person or a program reads. Results go to standard output, everything else to standard error. Texts of the
 * server pass through `shown...`, which leaves nothing that a terminal obeys.
 */

type Style = Parameters<typeof styleText>[0]

/** Coloured on a terminal, unless NO_COLOR says otherwise. */
const styled = (style: Style, text: string, stream: NodeJS.WriteStream): string =>
  styleText(style, text, { stream })

export const write = (text: string, style?: Style): void => {
  const clean = shownText(text)
  process.stdout.write(`${style === undefined ? clean : styled(style, clean, process.stdout)}\n`)
}

/** A line whose parts a program can tell apart. */
export const writeLine = (...parts: readonly string[]): void =>
  void process.stdout.write(`${parts.map(shownLine).join('\t')}\n`)

/** Progress, and what is no result. */
export const say = (text: string, style?: Style): void => {
  const clean = shownText(text)
  process.stderr.write(`${style === undefined ? clean : styled(style, clean, process.stderr)}\n`)
}

export const writeJson = (value: unknown): void => write(JSON.stringify(value, null, 2))

export interface Cell {
  readonly text: string
  readonly style?: Style | undefined
}

/** Aligned below a head on a terminal; otherwise lines with tabs and no head. An empty table says `empty`. */
export function writeTable(
  head: readonly string[],
  rows: readonly (readonly (Cell | string)[])[],
  empty: string,
): void {
  const cells = rows.map((row) => row.map((cell) => (typeof cell === 'string' ? { text: cell } : cell)))
  if (rows.length === 0) say(empty)
  else if (!process.stdout.isTTY) for (const row of cells) writeLine(...row.map(({ text }) => text))
  else writeAligned(head, cells)
}

/** Longer texts are cut, but for those of the last column, which the terminal wraps. */
const widest = 48

function writeAligned(head: readonly string[], rows: readonly (readonly Cell[])[]): void {
  const last = head.length - 1
  const cut = (text: string, column: number): string => {
    const line = shownLine(text)
    return line.length > widest && column !== last ? `${line.slice(0, widest - 1)}…` : line
  }
  const widths = head.map((name, column) =>
    Math.max(name.length, ...rows.map((row) => cut(row[column]?.text ?? '', column).length)),
  )
  const lineOf = (row: readonly Cell[]): string =>
    row
      .map(({ text, style }, column) => {
        const padded = cut(text, column).padEnd(column === last ? 0 : (widths[column] ?? 0))
        return style === undefined ? padded : styled(style, padded, process.stdout)
      })
      .join('  ')
      .trimEnd()
  process.stdout.write(`${lineOf(head.map((text) => ({ text, style: 'bold' as const })))}\n`)
  for (const row of rows) process.stdout.write(`${lineOf(row)}\n`)
}

const good: ReadonlySet<string> = new Set(['completed', 'approved', 'allow', 'ok', 'answered'])
const bad: ReadonlySet<string> = new Set([
  'failed',
  'denied',
  'deny',
  'rejected',
  'expired',
  'unknown_outcome',
])
const waiting: ReadonlySet<string> = new Set([
  'held',
  'paused',
  'awaiting_approval',
  'pending',
  'require_approval',
])

/** The colour of a status or verdict. */
export const toneOf = (status: string): Style | undefined =>
  good.has(status) ? 'green' : bad.has(status) ? 'red' : waiting.has(status) ? 'yellow' : undefined

/**
 * Whether the person says yes. Without a terminal nobody can, so it throws and names the option that says it before.
 */
export async function confirm(question: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw new Failure(`nobody can answer "${question}" here: add \`--yes\` if you are sure`)
  const reader = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const answer = await reader.question(`${styled('bold', shownLine(question), process.stderr)} [y/N] `)
    return /^(y|yes)$/i.test(answer.trim())
  } finally {
    reader.close()
  }
}

/** A line that the next one replaces; nothing where no terminal shows it. */
export function showPassing(text: string): void {
  if (!process.stderr.isTTY) return
  const room = Math.max(10, process.stderr.columns - 1)
  process.stderr.write(`\r\u001b[2K${stripVTControlCharacters(shownLine(text)).slice(0, room)}`)
}

export const clearPassing = (): void => void (process.stderr.isTTY && process.stderr.write('\r\u001b[2K'))

/** `3 min ago`, `in 2 h`. */
export function ago(time: string | null, now = Date.now()): string {
  if (time === null) return ''
  const seconds = Math.round((now - Date.parse(time)) / 1_000)
  const size = Math.abs(seconds)
  const words =
    size < 90
      ? `${size} s`
      : size < 5_400
        ? `${Math.round(size / 60)} min`
        : size < 172_800
          ? `${Math.round(size / 3_600)} h`
          : `${Math.round(size / 86_400)} days`
  return seconds >= 0 ? `${words} ago` : `in ${words}`
}
