import { parse, type CsvError } from 'csv-parse'
import { soundText } from './document.ts'

/* The first line names the columns. */

/** A `for_each` runs for at most so many items. */
export const mostRows = 10_000
export const mostColumns = 200
/** The inputs of a run may have 100,000 values: 80,000 cells and 10,000 rows are 90,000. */
export const mostCells = 80_000
/** All rows as JSON. Each repeats the names of the columns. */
export const mostRowsLength = 8 * 1024 * 1024

export type Cell = string | number | boolean | null
export type TableRow = Readonly<Record<string, Cell>>

export type Table =
  | { readonly rows: readonly TableRow[] }
  /** `isBroken`: the text is no table, and not only a too large one. */
  | { readonly problem: string; readonly isBroken: boolean }

const soundCell = (cell: Cell | undefined): Cell =>
  typeof cell === 'string' ? soundText(cell) : (cell ?? null)

const tooLarge = (problem: string): Table => ({ problem, isBroken: false })

/** Without a name, its position (`column_3`); a repeated name gets a number (`name_2`). */
function columnsOf(header: readonly Cell[]): string[] {
  const taken = new Set<string>()
  return header.map((cell, index) => {
    const wanted = soundText(String(cell ?? '')).trim() || `column_${index + 1}`
    let name = wanted
    for (let number = 2; taken.has(name); number += 1) name = `${wanted}_${number}`
    taken.add(name)
    return name
  })
}

export class TableBuilder {
  #columns: string[] | null = null
  readonly #rows: TableRow[] = []
  #length = 0

  /** Null if the line was added, else a sentence about the limit. */
  add(line: readonly Cell[]): string | null {
    if (this.#columns === null) {
      if (line.length > mostColumns) return `the table has more than ${mostColumns} columns`
      this.#columns = columnsOf(line)
      return null
    }
    if (this.#rows.length >= mostRows) return `the table has more than ${mostRows} rows`
    if ((this.#rows.length + 1) * this.#columns.length > mostCells)
      return `the table has more than ${mostCells} cells`
    const cells = this.#columns.map((name, index) => [name, soundCell(line[index])] as const)
    // `fromEntries` makes even `__proto__` a field like any other.
    const row = Object.fromEntries(cells)
    this.#length += JSON.stringify(row).length + 1
    if (this.#length > mostRowsLength)
      return `the rows of the table take more than ${mostRowsLength / 1024 / 1024} MiB`
    this.#rows.push(row)
    return null
  }

  get rows(): readonly TableRow[] {
    return this.#rows
  }
}

export function tableOf(lines: Iterable<readonly Cell[]>): Table {
  const table = new TableBuilder()
  for (const line of lines) {
    const problem = table.add(line)
    if (problem !== null) return tooLarge(problem)
  }
  return { rows: table.rows }
}

/** Between two pieces, the process handles other events. */
const pieceLength = 64 * 1024

/** Reads a too large table to its end, because a broken line may follow. */
export async function tableOfCsv(text: string, signal?: AbortSignal): Promise<Table> {
  const table = new TableBuilder()
  let problem: string | null = null
  const parser = parse({ bom: true, delimiter: delimiterOf(text), skip_empty_lines: true })
  parser.on('data', (line: string[]) => {
    problem ??= table.add(line)
  })
  try {
    const ended = new Promise<void>((resolve, reject) => {
      parser.once('end', resolve)
      parser.once('error', reject)
    })
    ended.catch(() => {})
    for (let at = 0; at < text.length && !parser.destroyed; at += pieceLength) {
      signal?.throwIfAborted()
      parser.write(text.slice(at, at + pieceLength))
      await new Promise((go) => setImmediate(go))
    }
    parser.end()
    await ended
  } catch (error) {
    if (signal?.aborted === true) throw error
    return { problem: explain(error as CsvError), isBroken: true }
  } finally {
    parser.destroy()
  }
  return problem === null ? { rows: table.rows } : tooLarge(problem)
}

/** The most frequent in the first line, outside quotes. */
function delimiterOf(text: string): string {
  const first = /^[^\r\n]*/.exec(text.slice(0, pieceLength))?.[0].replaceAll(/"[^"]*"/g, '') ?? ''
  const counts = [',', ';', '\t'].map((sign) => [sign, first.split(sign).length] as const)
  return counts.reduce((most, each) => (each[1] > most[1] ? each : most))[0]
}

/** The library's own message quotes the file. */
function explain({ code, lines }: Partial<CsvError> & { readonly lines?: number }): string {
  const line = typeof lines === 'number' ? `line ${lines}` : 'a line'
  if (code === 'CSV_RECORD_INCONSISTENT_FIELDS_LENGTH')
    return `${line} has another number of cells than the first line`
  return `${line} is not CSV: check its quotes`
}
