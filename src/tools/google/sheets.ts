import { sheets, type sheets_v4 } from '@googleapis/sheets'
import { z } from 'zod'
import { tableOf } from '../../shared/documents/table.ts'
import { googleFileId } from '../../policy/readers/google-links.ts'
import { listOf } from '../kit/exchange.ts'
import {
  invalidParams,
  OutcomeUnknown,
  ToolError,
  type FinderOf,
  type Look,
  type ToolBody,
} from '../kit/executor.ts'
import { digestOf, type Marked } from '../kit/marker.ts'
import { fileIdAt, googleOf, type Google } from './client.ts'
import { requireSame } from './documents.ts'

const { spreadsheets } = sheets('v4')

type Params = { readonly spreadsheet: string; readonly range?: string | undefined }

const aSheet = z.object({
  properties: z.object({
    sheetId: z.int().default(0),
    title: z.string(),
    sheetType: z.string().default('GRID'),
  }),
})
const aSpreadsheet = z.object({
  spreadsheetId: z.string(),
  properties: z.object({ title: z.string().default('') }).default({ title: '' }),
  sheets: listOf(aSheet, 1_000),
})

export interface NamedSheet {
  readonly spreadsheetId: string
  readonly spreadsheetTitle: string
  readonly sheetId: number
  readonly title: string
  readonly cells: string | null
}

export async function sheetOf(google: Google, { spreadsheet, range }: Params): Promise<NamedSheet> {
  const spreadsheetId = fileIdAt('spreadsheet', spreadsheet)
  const fields = 'spreadsheetId,properties.title,sheets.properties(sheetId,title,sheetType)'
  const found = await google.read('sheets', aSpreadsheet, (options) =>
    spreadsheets.get({ spreadsheetId, fields }, options),
  )
  requireSame(spreadsheetId, found.spreadsheetId)
  const grids = found.sheets
    .map(({ properties }) => properties)
    .filter(({ sheetType }) => sheetType === 'GRID')
  const place = sheetPlaceAt(
    spreadsheet,
    range,
    grids.map(({ title }) => title),
  )
  const sheet = grids.find(({ title, sheetId }) => isNamed(place, title, sheetId))
  if (sheet === undefined) throw invalidParams('the spreadsheet has no such sheet: check the link or `range`')
  const { sheetId, title } = sheet
  return { spreadsheetId, spreadsheetTitle: found.properties.title, sheetId, title, cells: place.cells }
}

const isNamed = (place: SheetPlace, title: string, sheetId: number): boolean =>
  place.title === null ? place.gid === null || place.gid === sheetId : place.title === title

/** In A1 notation. */
const quotedName = ({ title }: Pick<NamedSheet, 'title'>): string => `'${title.replaceAll("'", "''")}'`

interface SheetPlace {
  /** Null for the sheet of `gid`, or else the first one. */
  readonly title: string | null
  /** From a link; null if it names none. */
  readonly gid: number | null
  /** In A1 notation; null for all. */
  readonly cells: string | null
}

const cellsForm = /^(?:[A-Za-z]{1,3}\d{0,7}|\d{1,7})(?::(?:[A-Za-z]{1,3}\d{0,7}|\d{1,7}))?$/

/** The sheet is in `range` or in the link, the cells in `range`. `titles` are all sheets. Throws `invalid_params`. */
function sheetPlaceAt(link: string, range: string | undefined, titles: readonly string[]): SheetPlace {
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

/** `A` has the number 0. */
function firstColumnOf(cells: string | null): number {
  const letters = /^[A-Za-z]+/.exec(cells ?? '')?.[0]?.toUpperCase() ?? 'A'
  let column = 0
  for (const letter of letters) column = column * 26 + letter.charCodeAt(0) - 64
  return column - 1
}

const cell = z.union([z.string(), z.number(), z.boolean(), z.null()])
const values = z.object({ range: z.string(), values: z.array(z.array(cell)).default([]) })

async function valuesOf(
  google: Google,
  sheet: NamedSheet,
  cells: string | null,
): Promise<z.output<typeof values>> {
  const range = cells === null ? quotedName(sheet) : `${quotedName(sheet)}!${cells}`
  return google.read('sheets', values, (options) =>
    spreadsheets.values.get(
      {
        spreadsheetId: sheet.spreadsheetId,
        range,
        valueRenderOption: 'UNFORMATTED_VALUE',
        dateTimeRenderOption: 'FORMATTED_STRING',
        fields: 'range,values',
      },
      options,
    ),
  )
}

export async function firstRowOf(
  google: Google,
  sheet: NamedSheet,
): Promise<readonly z.output<typeof cell>[]> {
  const { values: rows } = await valuesOf(google, sheet, '1:1')
  return rows[0] ?? []
}

export const readRows: ToolBody<'sheets_read'> = async (call, context) => {
  const google = await googleOf(call, context, 'sheets_read')
  const sheet = await sheetOf(google, call.params)
  const { spreadsheetId } = sheet
  const found = await valuesOf(google, sheet, sheet.cells)
  // Google leaves out empty cells at the end of a row.
  const width = found.values.reduce((most, row) => Math.max(most, row.length), 0)
  const rows = found.values.map((row) => [...row, ...Array<string>(width - row.length).fill('')])
  const table = tableOf(rows)
  const records = 'rows' in table ? [...table.rows] : null
  return { output: { spreadsheet_id: spreadsheetId, range: found.range, rows, records } }
}

/*
 * One request, which Google carries out whole or not at all, has the rows and the mark of their call: developer
 * metadata of the spreadsheet. We choose its id, and Google refuses one that is taken, so the rows are not added twice,
 * and the mark proves that they were. A spreadsheet has room for 30,000 characters of metadata, about 1,500 marks, so
 * each call removes marks that nobody looks for any more.
 */

interface Mark {
  readonly id: number
  /** 12 characters that name the call, and the minute in which the mark was made. */
  readonly value: string
}

/** Short, because each mark uses up room for it. */
const metadataKey = 'cs'
/** Until then, a missing mark proves that no rows were added. Shorter than `keptMinutes`: clocks of workers differ. */
const safeSeconds = 15 * 60

const nameOf = (call: Marked): string => digestOf(call).slice(0, 12)
const minute = (): number => Math.floor(Date.now() / 60_000)

const readMarks: sheets_v4.Schema$DeveloperMetadataLookup = { metadataKey }

const markOfRows = (call: Marked): sheets_v4.Schema$DeveloperMetadata => ({
  metadataId: Number.parseInt(digestOf(call).slice(-8), 16) & 0x7fffffff || 1,
  metadataKey,
  metadataValue: `${nameOf(call)}${minute().toString(36)}`,
  location: { spreadsheet: true },
  visibility: 'DOCUMENT',
})

const madeBy = (call: Marked, marks: readonly Mark[]): boolean =>
  marks.some(({ value }) => value.startsWith(nameOf(call)))

/** No other call can have removed the mark yet. */
const isSafeToLook = ({ sentSecondsAgo }: Look): boolean => sentSecondsAgo < safeSeconds

/** So old that no attempt looks for them. */
const marksToRemove = (marks: readonly Mark[]): readonly number[] =>
  marks
    .filter(({ value }) => {
      const made = /^[\da-f]{12}([\da-z]{1,8})$/.exec(value)?.[1]
      return made !== undefined && Number.parseInt(made, 36) < minute() - 25
    })
    .map(({ id }) => id)
    .slice(0, 200)

const marksFound = z.object({
  matchedDeveloperMetadata: listOf(
    z.object({ developerMetadata: z.object({ metadataId: z.int(), metadataValue: z.string().default('') }) }),
    10_000,
  ).default([]),
})

async function marksOf(google: Google, spreadsheetId: string): Promise<readonly Mark[]> {
  const found = await google.read('sheets', marksFound, (options) =>
    spreadsheets.developerMetadata.search(
      { spreadsheetId, requestBody: { dataFilters: [{ developerMetadataLookup: readMarks }] } },
      options,
    ),
  )
  return found.matchedDeveloperMetadata.map(({ developerMetadata: { metadataId, metadataValue } }) => ({
    id: metadataId,
    value: metadataValue,
  }))
}

type Rows = readonly (readonly (string | number | boolean | null)[])[]

function cellOf(value: string | number | boolean | null): sheets_v4.Schema$CellData {
  if (value === null) return {}
  if (typeof value === 'string') return { userEnteredValue: { stringValue: value } }
  return { userEnteredValue: typeof value === 'number' ? { numberValue: value } : { boolValue: value } }
}

const outputOf = ({ spreadsheetId, title }: NamedSheet, rows: Rows) => ({
  spreadsheet_id: spreadsheetId,
  sheet: title,
  rows: rows.length,
})

const accepted = z.object({ spreadsheetId: z.string() })

export const appendRows: ToolBody<'sheets_append'> = async (call, context) => {
  const { rows } = call.params
  const google = await googleOf(call, context, 'sheets_append')
  const sheet = await sheetOf(google, call.params)
  const { spreadsheetId, sheetId } = sheet
  const old = marksToRemove(await marksOf(google, spreadsheetId))
  const before = Array.from({ length: firstColumnOf(sheet.cells) }, () => ({}))
  const requests: sheets_v4.Schema$Request[] = [
    { createDeveloperMetadata: { developerMetadata: markOfRows(call) } },
    {
      appendCells: {
        sheetId,
        rows: rows.map((row) => ({ values: [...before, ...row.map(cellOf)] })),
        fields: 'userEnteredValue',
      },
    },
    ...old.map((metadataId) => ({
      deleteDeveloperMetadata: { dataFilter: { developerMetadataLookup: { metadataId } } },
    })),
  ]
  await context.pointOfNoReturn()
  try {
    await google.write('sheets', accepted, (options) =>
      spreadsheets.batchUpdate(
        { spreadsheetId, requestBody: { requests }, fields: 'spreadsheetId' },
        options,
      ),
    )
  } catch (error) {
    if (!(error instanceof ToolError) || error.code !== 'google_refused') throw error
    // Google also refuses a mark that exists. Then it has carried out an earlier attempt late, and the rows are there.
    if (!(await isMade(call, google, spreadsheetId))) throw error
  }
  return { output: outputOf(sheet, rows) }
}

async function isMade(call: Marked, google: Google, spreadsheetId: string): Promise<boolean> {
  try {
    return madeBy(call, await marksOf(google, spreadsheetId))
  } catch {
    throw new OutcomeUnknown('Google refused the rows, and it could not be read whether they are there')
  }
}

export const findRows: FinderOf<'sheets_append'> = async (call, context, look) => {
  const google = await googleOf(call, context, 'sheets_append')
  const sheet = await sheetOf(google, call.params)
  if (madeBy(call, await marksOf(google, sheet.spreadsheetId)))
    return { kind: 'done', output: outputOf(sheet, call.params.rows) }
  return { kind: isSafeToLook(look) ? 'absent' : 'unclear' }
}
