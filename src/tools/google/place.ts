import { fileIdOf, googleFileId } from '../../policy/readers/google-links.ts'
import { invalidParams } from '../kit/executor.ts'

/**
 * Returns the id of the file that `text` names. The text is a link, or the id itself, and may have white space around
 * it. Rules read the text in the same way. Throws ToolError `invalid_params` for every other text.
 */
export function fileIdAt(param: string, text: string): string {
  const id = fileIdOf(text)
  if (id !== null) return id
  throw invalidParams(
    `\`${param}\` must be a link to a file in Google Drive, Docs, Sheets or Slides, or its id`,
  )
}

/** The part of a spreadsheet that a call reads or writes. */
export interface SheetPlace {
  /** The name of the sheet. Is null for the sheet that `gid` names. If `gid` is also null, the first sheet is meant. */
  readonly title: string | null
  /** The id of the sheet that a link names. Is null if the link names no sheet. */
  readonly gid: number | null
  /** Cells in A1 notation. Is null for all cells. */
  readonly cells: string | null
}

const cellsForm = /^(?:[A-Za-z]{1,3}\d{0,7}|\d{1,7})(?::(?:[A-Za-z]{1,3}\d{0,7}|\d{1,7}))?$/

/**
 * Finds out which sheet and cells the call means. The sheet is in `range` or in the link, and the cells are in `range`.
 * `titles` are the names of all sheets. Throws ToolError `invalid_params`.
 */
export function sheetPlaceAt(link: string, range: string | undefined, titles: readonly string[]): SheetPlace {
  const gid = /[#?&]gid=(\d{1,10})(?:&|$)/.exec(googleFileId(link) === null ? '' : link.trim())?.[1]
  const linked = { title: null, gid: gid === undefined ? null : Number(gid) }
  if (range === undefined) return { ...linked, cells: null }
  if (titles.includes(range)) return { title: range, gid: null, cells: null }
  const quoted = /^'((?:[^']|'')+)'(?:!(.+))?$/.exec(range)
  const [, name, cells] = quoted ?? /^([^!']+)!(.+)$/.exec(range) ?? []
  if (name === undefined) {
    if (cellsForm.test(range)) return { ...linked, cells: range }
    throw invalidParams('`range` names no sheet of the spreadsheet: write for example `Sheet1!A1:D20`')
  }
  const title = quoted === null ? name : name.replaceAll("''", "'")
  if (!titles.includes(title)) throw invalidParams('the spreadsheet has no sheet with the name in `range`')
  if (cells !== undefined && !cellsForm.test(cells))
    throw invalidParams('`range` must end with cells in A1 notation, such as `A1:D20` or `B:D`')
  return { title, gid: null, cells: cells ?? null }
}

/** Returns the number of the first column of `cells`. Column `A` has the number 0. */
export function firstColumnOf(cells: string | null): number {
  const letters = /^[A-Za-z]+/.exec(cells ?? '')?.[0]?.toUpperCase() ?? 'A'
  let column = 0
  for (const letter of letters) column = column * 26 + letter.charCodeAt(0) - 64
  return column - 1
}
