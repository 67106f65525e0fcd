import { strFromU8, unzipSync, zipSync, type Unzipped } from 'fflate'
import mammoth from 'mammoth'
import readExcel from 'read-excel-file/universal'
import { DocumentRefused, maxDocumentSize } from './document.ts'
import { tableOf, type Cell, type Table } from './table.ts'

/* Word and Excel files: ZIP archives of XML. Only in the parser process. */

/** Bytes of all unpacked parts together. */
export const mostUnpacked = 100 * 1024 * 1024
const mostParts = 10_000
/** All sheets together. The library holds every cell in memory, and takes minutes for a million rows. */
export const mostSheetRows = 100_000
export const mostSheetCells = 1_000_000

export type OfficeParts = { readonly kind: 'docx' | 'xlsx'; readonly parts: Unzipped }

/** A part's buffer has the size that the archive states. One that unpacks to more is cut, and no valid XML. */
export function unpackOffice(bytes: Uint8Array): OfficeParts {
  let [unpacked, count] = [0, 0]
  const parts = unzip(bytes, ({ name, size, originalSize }) => {
    count += 1
    if (count > mostParts) throw new DocumentRefused(`the file has more than ${mostParts} parts`)
    if (!/^(word|xl|_rels)\/.*\.(xml|rels)$|^_rels\/\.rels$|^\[Content_Types\]\.xml$/.test(name)) return false
    unpacked += Math.max(size, originalSize)
    if (unpacked > mostUnpacked)
      throw new DocumentRefused(
        `the file unpacks to more than ${mostUnpacked / 1024 / 1024} MiB: split it into several files`,
      )
    return true
  })
  for (const part of Object.values(parts))
    if (/<!(DOCTYPE|ENTITY)/i.test(strFromU8(part, true)))
      throw new DocumentRefused('the file declares XML entities, which Word and Excel never do')
  if (Object.hasOwn(parts, 'word/document.xml')) return { kind: 'docx', parts }
  if (Object.hasOwn(parts, 'xl/workbook.xml')) return { kind: 'xlsx', parts }
  throw new DocumentRefused(
    'the file is an archive, but no Word or Excel file: send PDF, DOCX, XLSX, CSV or text',
  )
}

function unzip(
  bytes: Uint8Array,
  filter: NonNullable<NonNullable<Parameters<typeof unzipSync>[1]>['filter']>,
): Unzipped {
  try {
    return unzipSync(bytes, { filter })
  } catch (error) {
    if (error instanceof DocumentRefused) throw error
    throw new DocumentRefused('the archive is damaged: save the file anew')
  }
}

/** The libraries accept only a whole archive. */
const packed = (parts: Unzipped): Uint8Array => zipSync(parts, { level: 0 })

export async function textOfDocx(parts: Unzipped): Promise<string> {
  const { value } = await mammoth.extractRawText({ buffer: Buffer.from(packed(parts)) })
  return value.trim()
}

interface Workbook {
  readonly text: string
  /** The first sheet. */
  readonly table: Table
}

/** The text has every sheet as CSV below its name. A formula has the value that was saved with it. */
export async function readXlsx(parts: Unzipped): Promise<Workbook> {
  refuseLargeSheets(parts)
  const sheets = await readExcel(new Uint8Array(packed(parts)).buffer)
  let length = 0
  const texts: string[] = []
  const add = (line: string): void => {
    length += line.length + 1
    if (length > maxDocumentSize) throw new DocumentRefused('the sheets hold too much text: split the file')
    texts.push(line)
  }
  const lines = sheets.map(({ sheet, data }) => {
    const cells = (data as readonly unknown[][]).map((row) => row.map(cellOf))
    add(`${texts.length === 0 ? '' : '\n'}# ${sheet}`)
    for (const row of cells) add(row.map(csvCell).join(','))
    return cells
  })
  return { text: texts.join('\n'), table: tableOf(lines[0] ?? []) }
}

/** Counted in the XML before the library reads it. If a file hides rows, the limits of the sandbox end the work. */
function refuseLargeSheets(parts: Unzipped): void {
  let [rows, cells] = [0, 0]
  for (const [name, part] of Object.entries(parts)) {
    if (!name.startsWith('xl/worksheets/')) continue
    const bytes = Buffer.from(part.buffer, part.byteOffset, part.byteLength)
    rows += countOf(bytes, '<row')
    cells += countOf(bytes, '<c ')
  }
  if (rows > mostSheetRows) throw tooMany(mostSheetRows, 'rows')
  if (cells > mostSheetCells) throw tooMany(mostSheetCells, 'cells')
}

const tooMany = (most: number, what: string): DocumentRefused =>
  new DocumentRefused(`the sheets have more than ${most} ${what}: split the file, or send it as CSV`)

function countOf(bytes: Buffer, text: string): number {
  let count = 0
  for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + text.length)) count += 1
  return count
}

function cellOf(value: unknown): Cell {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString()
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  return typeof value === 'string' || typeof value === 'boolean' ? value : null
}

function csvCell(cell: Cell): string {
  const text = String(cell ?? '')
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
