import { type Asked, type Handlers, Refused } from './api.ts'

type Cell = string | number | boolean

export interface Sheet {
  readonly sheetId: number
  readonly title: string
  readonly sheetType?: string
  readonly rows: Cell[][]
}
export interface Metadata {
  readonly metadataId: number
  readonly metadataKey: string
  readonly metadataValue: string
  readonly location: object
  readonly visibility: string
}
export interface Spreadsheet {
  readonly title: string
  readonly sheets: readonly Sheet[]
  metadata: Metadata[]
}
export type Spreadsheets = Map<string, Spreadsheet>

interface Change {
  readonly createDeveloperMetadata?: { readonly developerMetadata: Metadata }
  readonly deleteDeveloperMetadata?: {
    readonly dataFilter: { readonly developerMetadataLookup: Partial<Metadata> }
  }
  readonly appendCells?: {
    readonly sheetId: number
    readonly rows: readonly { readonly values: readonly { readonly userEnteredValue?: object }[] }[]
  }
}

/** A spreadsheet can hold at most this many characters of metadata. */
const mostMetadata = 30_000

export function sheetsHandlers(all: Spreadsheets): Handlers {
  const at = ({ path }: Asked): Spreadsheet => {
    const found = all.get(path['spreadsheetId'] ?? '')
    if (found === undefined) throw new Refused(404, 'NOT_FOUND')
    return found
  }
  return {
    'sheets.spreadsheets.get': (asked) => {
      const { title, sheets } = at(asked)
      return {
        spreadsheetId: asked.path['spreadsheetId'],
        properties: { title },
        sheets: sheets.map(({ sheetId, title: name, sheetType = 'GRID' }) => ({
          properties: { sheetId, title: name, sheetType },
        })),
      }
    },
    'sheets.spreadsheets.values.get': (asked) => valuesOf(at(asked), asked.path['range'] ?? ''),
    'sheets.spreadsheets.developerMetadata.search': (asked) => {
      const { dataFilters } = asked.body as {
        dataFilters: { developerMetadataLookup: Partial<Metadata> }[]
      }
      const found = at(asked).metadata.filter((each) =>
        dataFilters.some(({ developerMetadataLookup: lookup }) => isSelected(each, lookup)),
      )
      return found.length === 0
        ? {}
        : { matchedDeveloperMetadata: found.map((developerMetadata) => ({ developerMetadata })) }
    },
    'sheets.spreadsheets.batchUpdate': (asked) => {
      const spreadsheet = at(asked)
      const { requests } = asked.body as { requests: Change[] }
      // Either all changes apply, or none. So the changes are first made in a copy.
      const draft = structuredClone(spreadsheet)
      const replies = requests.map((change) => carryOut(draft, change))
      spreadsheet.metadata = draft.metadata
      for (const [index, { rows }] of draft.sheets.entries())
        spreadsheet.sheets[index]?.rows.splice(0, Infinity, ...rows)
      return { spreadsheetId: asked.path['spreadsheetId'], replies }
    },
  }
}

const isSelected = (metadata: Metadata, lookup: Partial<Metadata>): boolean =>
  Object.entries(lookup).every(([name, value]) => metadata[name as keyof Metadata] === value)

function carryOut(spreadsheet: Spreadsheet, change: Change): object {
  const { createDeveloperMetadata: create, deleteDeveloperMetadata: remove, appendCells: append } = change
  if (create !== undefined) {
    const { developerMetadata } = create
    const isTaken = spreadsheet.metadata.some(({ metadataId }) => metadataId === developerMetadata.metadataId)
    spreadsheet.metadata.push(developerMetadata)
    const size = spreadsheet.metadata.reduce(
      (sum, each) => sum + each.metadataKey.length + each.metadataValue.length,
      0,
    )
    if (isTaken || size > mostMetadata) throw new Refused(400, 'INVALID_ARGUMENT')
    return { createDeveloperMetadata: { developerMetadata } }
  }
  if (remove !== undefined) {
    const { developerMetadataLookup: lookup } = remove.dataFilter
    const deletedDeveloperMetadata = spreadsheet.metadata.filter((each) => isSelected(each, lookup))
    spreadsheet.metadata = spreadsheet.metadata.filter((each) => !isSelected(each, lookup))
    return { deleteDeveloperMetadata: { deletedDeveloperMetadata } }
  }
  const sheet = spreadsheet.sheets.find(({ sheetId }) => sheetId === append?.sheetId)
  if (sheet === undefined) throw new Refused(400, 'INVALID_ARGUMENT')
  for (const { values } of append?.rows ?? [])
    sheet.rows.push(
      values.map(({ userEnteredValue = {} }) => (Object.values(userEnteredValue)[0] as Cell) ?? ''),
    )
  return {}
}

/**
 * Returns the cells of a range such as `'Sheet1'`, `'Sheet1'!B2:C3`, `'Sheet1'!B:C` or `'Sheet1'!2:3`. Leaves out empty
 * cells at the end of a row, and empty rows at the end.
 */
function valuesOf(spreadsheet: Spreadsheet, range: string): object {
  const [, quoted = '', cells = ''] = /^'((?:[^']|'')+)'(?:!(.+))?$/.exec(range) ?? []
  const sheet = spreadsheet.sheets.find(({ title }) => title === quoted.replaceAll("''", "'"))
  if (sheet === undefined) throw new Refused(400, 'INVALID_ARGUMENT')
  const [from = '', to = from] = cells.split(':')
  const column = (text: string, other: number) => {
    const letters = /^[A-Z]+/.exec(text.toUpperCase())?.[0] ?? ''
    let number = 0
    for (const letter of letters) number = number * 26 + letter.charCodeAt(0) - 64
    return letters === '' ? other : number
  }
  const row = (text: string, other: number) => Number(/\d+$/.exec(text)?.[0] ?? other)
  const values = sheet.rows
    .slice(row(from, 1) - 1, row(to, Infinity))
    .map((cellsOfRow) => trimmed(cellsOfRow.slice(column(from, 1) - 1, column(to, Infinity))))
  while (values.at(-1)?.length === 0) values.pop()
  return { range, majorDimension: 'ROWS', ...(values.length === 0 ? {} : { values }) }
}

function trimmed(row: readonly Cell[]): Cell[] {
  const kept = [...row]
  while (kept.at(-1) === '') kept.pop()
  return kept
}
