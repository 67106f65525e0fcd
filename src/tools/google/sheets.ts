import { sheets, type sheets_v4 } from '@googleapis/sheets'
import { z } from 'zod'
import { tableOf } from '../../shared/documents/table.ts'
import { listOf } from '../kit/bounded-list.ts'
import { invalidParams, OutcomeUnknown, ToolError, type ToolCall } from '../kit/executor.ts'
import type { FinderOf, ToolBody } from '../kit/params.ts'
import { googleOf, type Google } from './client.ts'
import { requireSame } from './documents.ts'
import { fileIdAt, firstColumnOf, sheetPlaceAt, type SheetPlace } from './place.ts'
import { isSafeToLook, madeBy, type Mark, marksToRemove, markOfRows, readMarks } from './row-marks.ts'

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

/** The sheet that a call names, and its spreadsheet. */
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

/** Returns the name of a sheet in A1 notation. */
const quotedName = ({ title }: Pick<NamedSheet, 'title'>): string => `'${title.replaceAll("'", "''")}'`

const cell = z.union([z.string(), z.number(), z.boolean(), z.null()])
const values = z.object({ range: z.string(), values: z.array(z.array(cell)).default([]) })

/** Reads the values of cells. `cells` is in A1 notation, and is null for all cells of the sheet. */
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

const marksFound = z.object({
  matchedDeveloperMetadata: listOf(
    z.object({
      developerMetadata: z.object({ metadataId: z.int(), metadataValue: z.string().default('') }),
    }),
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
    // Google also refuses the request if the mark exists already. Then Google has carried out the request of an earlier
    // attempt late, and the rows are there.
    if (!(await isMade(call, google, spreadsheetId))) throw error
  }
  return { output: outputOf(sheet, rows) }
}

async function isMade(
  call: Pick<ToolCall<unknown>, 'idempotencyKey'>,
  google: Google,
  spreadsheetId: string,
): Promise<boolean> {
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
