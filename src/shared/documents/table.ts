import { parse, type CsvError } from 'csv-parse'
import { soundText } from './document.ts'

/* Tables as lists of objects: the first line names the columns. */

/** Maximum number of rows. A `for_each` runs for at most this many items. */
export const mostRows = 10_000
export const mostColumns = 200
/**
 * Maximum number of cells of one table. The inputs of a run may have 100,000 values. Cells and rows both count as
 * values. So 80,000 cells and 10,000 rows are 90,000 values.
 */
export const mostCells = 80_000
/** Maximum number of characters of all rows as JSON. Each row repeats the names of the columns. */
export const mostRowsLength = 8 * 1024 * 1024

export type Cell = string | number | boolean | null
export type TableRow = Readonly<Record<string, Cell>>

export type Table =
  | { readonly rows: readonly TableRow[] }
  /** `isBroken` is true if the text is no table, and false if the table is only too large. */
  | { readonly problem: string; readonly isBroken: boolean }

const soundCell = (cell: Cell | undefined): Cell =>
  typeof cell === 'string' ? soundText(cell) : (cell ?? null)

const tooLarge = (problem: string): Table => ({ problem, isBroken: false })

/**
 * Returns the names of the columns. A column without a name gets its position, such as `column_3`. A repeated name gets
 * a number, such as `name_2`.
 */
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

/** Collects the lines of a table until it is too large. */
export class TableBuilder {
  #columns: string[] | null = null
  readonly #rows: TableRow[] = []
  #length = 0

  /**
   * Adds a line. Returns null if the line was added. If the table would become too large, does not add the line and
   * returns a sentence about the limit.
   */
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
    // `fromEntries` defines own properties, so a column with the name `__proto__` is a field like any other.
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

/** Makes a table from lines that are already in memory. */
export function tableOf(lines: Iterable<readonly Cell[]>): Table {
  const table = new TableBuilder()
  for (const line of lines) {
    const problem = table.add(line)
    if (problem !== null) return tooLarge(problem)
  }
  return { rows: table.rows }
}

/** The parser gets this many characters at a time. Between two pieces, the process handles other events. */
const pieceLength = 64 * 1024

/**
 * Reads a CSV text as a table. If the table is too large, still reads the rest of the text, because a broken line may
 * follow.
 */
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

/** Returns the separator that occurs most often in the first line, outside quotes. */
function delimiterOf(text: string): string {
  const first = /^[^\r\n]*/.exec(text.slice(0, pieceLength))?.[0].replaceAll(/"[^"]*"/g, '') ?? ''
  const counts = [',', ';', '\t'].map((sign) => [sign, first.split(sign).length] as const)
  return counts.reduce((most, each) => (each[1] > most[1] ? each : most))[0]
}

/** Returns the message for a CSV error. The library's own message is not used, because it quotes the file. */
function explain({ code, lines }: Partial<CsvError> & { readonly lines?: number }): string {
  const line = typeof lines === 'number' ? `line ${lines}` : 'a line'
  if (code === 'CSV_RECORD_INCONSISTENT_FIELDS_LENGTH')
    return `${line} has another number of cells than the first line`
  return `${line} is not CSV: check its quotes`
}
