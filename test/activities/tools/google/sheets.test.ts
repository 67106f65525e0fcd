import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { startGoogle, type GoogleEmulator } from '../../../support/google/emulator.ts'
import type { DrivePermission } from '../../../support/google/drive.ts'
import type { Spreadsheet } from '../../../support/google/sheets.ts'
import { startFaultProxy, type FaultProxy } from '../../../support/fault-proxy.ts'
import { rejection } from '../call.ts'
import { GoogleCall } from './google-call.ts'

let google: GoogleEmulator
let proxy: FaultProxy
let book: Spreadsheet
const id = '1Sheet-id_x'
const link = `https://docs.google.com/spreadsheets/d/${id}/edit#gid=7`
beforeAll(async () => {
  google = await startGoogle()
  proxy = await startFaultProxy(google.url)
})
afterAll(() => Promise.all([proxy?.close(), google?.close()]))
beforeEach(() => {
  proxy.choose = () => 'pass'
  book = {
    title: 'Orders',
    sheets: [
      { sheetId: 3, title: 'Chart', sheetType: 'OBJECT', rows: [] },
      { sheetId: 0, title: 'Sheet1', rows: [['name', 'total'], ['Ann', 12, true], ['Bo']] },
      { sheetId: 7, title: "It's 'A1'", rows: [['x']] },
    ],
    metadata: [],
  }
  google.state.spreadsheets.set(id, book)
  share([{ type: 'user', emailAddress: 'bo@x.example' }])
})

const share = (permissions: readonly DrivePermission[], more = {}) =>
  google.state.files.set(id, {
    id,
    name: 'Orders',
    mimeType: 'application/vnd.google-apps.spreadsheet',
    parents: [],
    appProperties: {},
    text: '',
    permissions,
    ...more,
  })

const over = () => ({ base: proxy.url })
const read = (params: object = {}) =>
  new GoogleCall('sheets_read', { spreadsheet: id, ...params }, over()).make<{
    rows: unknown[][]
    range: string
    records: unknown
  }>()
const append = (params: object = {}) =>
  new GoogleCall('sheets_append', { spreadsheet: id, rows: [['Cy', 1]], ...params }, over())
const rowsOf = (title: string) => book.sheets.find((sheet) => sheet.title === title)?.rows

test('an answer for another spreadsheet is refused, since rules have not decided about it', async () => {
  const body = JSON.stringify({ spreadsheetId: 'another', sheets: [{ properties: { title: 'Sheet1' } }] })
  let writes = 0
  proxy.choose = (_, path) => {
    if (path.includes(':batchUpdate')) writes += 1
    return /\/spreadsheets\/[\w-]+\?/.test(path) ? { status: 200, body } : 'pass'
  }
  const refused = { code: 'google_other_file', retryable: false }
  for (const call of [read(), append().make(), append().find(), append().seen()])
    expect(await rejection(call)).toMatchObject(refused)
  expect(writes).toBe(0)
})

describe('rows that are read', () => {
  test('have the same length, and are records named by the first row', async () => {
    expect(await read()).toMatchObject({
      range: "'Sheet1'",
      rows: [
        ['name', 'total', ''],
        ['Ann', 12, true],
        ['Bo', '', ''],
      ],
      records: [
        { name: 'Ann', total: 12, column_3: true },
        { name: 'Bo', total: '', column_3: '' },
      ],
    })
  })

  const ranges: readonly (readonly [object, unknown[][]])[] = [
    [{ range: 'A2:B2' }, [['Ann', 12]]],
    [{ range: 'Sheet1!B:B' }, [['total'], [12]]],
    [{ range: '2:2' }, [['Ann', 12, true]]],
    [{ range: "It's 'A1'" }, [['x']]],
    [{ range: "'It''s ''A1'''!A1" }, [['x']]],
    [{ spreadsheet: link }, [['x']]],
    [{ spreadsheet: link, range: 'Sheet1!A1' }, [['name']]],
    [{ range: 'Z9' }, []],
    [{ spreadsheet: ` ${id}\u00a0`, range: 'Z9' }, []],
  ]
  test.each(ranges)('of %j', async (params, rows) => {
    expect((await read(params)).rows).toEqual(rows)
  })

  test.each([
    { range: 'Missing!A1' },
    { range: 'Chart' },
    { range: 'Sheet1!A1,B2' },
    { range: 'A1:B2:C3' },
    { range: "Sheet1!A1'&x" },
    { spreadsheet: link.replace('gid=7', 'gid=99') },
    { spreadsheet: link.replace('gid=7', 'gid=3') },
    { spreadsheet: `https://docs.google.com.evil.example/spreadsheets/d/${id}` },
    { spreadsheet: `https://evil.example/?x=https://docs.google.com/spreadsheets/d/${id}` },
    { spreadsheet: '../../secret' },
  ])('of %j are refused', async (params) => {
    expect(await rejection(read(params))).toMatchObject({ code: 'invalid_params' })
  })
})

describe('rows that are added', () => {
  test('are the last ones, as values and never as formulas', async () => {
    const rows = [
      ['=IMPORTXML("https://evil.example")', 1.5, true, null],
      ['+1', null, false, ''],
    ]
    const call = append({ rows })
    expect(await call.find()).toBe('absent')
    const made = await call.make()
    expect(made).toEqual({ spreadsheet_id: id, sheet: 'Sheet1', rows: 2 })
    expect(rowsOf('Sheet1')?.slice(3)).toEqual([
      ['=IMPORTXML("https://evil.example")', 1.5, true, ''],
      ['+1', '', false, ''],
    ])
    expect(await call.find()).toEqual(made)
    expect(await append({ rows }).find()).toBe('absent')
  })

  test('go to the named sheet, from the named column on', async () => {
    await append({ range: 'Sheet1!C:D' }).make()
    await append({ spreadsheet: link }).make()
    expect(rowsOf('Sheet1')?.at(-1)).toEqual(['', '', 'Cy', 1])
    expect(rowsOf("It's 'A1'")?.at(-1)).toEqual(['Cy', 1])
  })

  test('are refused with a mark that is there, and then count as added', async () => {
    const call = append()
    const made = await call.make()
    expect(await call.make()).toEqual(made)
    expect(rowsOf('Sheet1')).toHaveLength(4)
  })

  test('whose refusal leaves open whether they are there ask', async () => {
    const call = append()
    await call.make()
    let searches = 0
    proxy.choose = (_, path) => {
      if (path.includes('developerMetadata:search')) searches += 1
      return searches > 1 ? { status: 503 } : 'pass'
    }
    expect(await rejection(call.make())).toMatchObject({ name: 'OutcomeUnknown' })
  })

  test('remove marks that nobody looks for any more, so that the room for them is never full', async () => {
    const minutesAgo = (minutes: number) => Math.floor(Date.now() / 60_000 - minutes).toString(36)
    const mark = (metadataId: number, metadataValue: string, metadataKey = 'cs') => ({
      ...{ metadataId, metadataKey, metadataValue, location: { spreadsheet: true }, visibility: 'DOCUMENT' },
    })
    const old = Array.from({ length: 1_450 }, (_, index) =>
      mark(index + 10, `${index.toString(16).padStart(12, '0')}${minutesAgo(30)}`),
    )
    const others = [
      mark(1, `${'f'.repeat(12)}${minutesAgo(5)}`),
      mark(2, 'of somebody else'),
      mark(3, 'x', 'other'),
    ]
    book.metadata = [...others, ...old]
    for (let times = 0; times < 8; times += 1) await append().make()
    expect(book.metadata).toHaveLength(3 + 8)
    expect(book.metadata.slice(0, 3)).toEqual(others)
  })

  test('that are missed after the time in which marks stay ask a person', async () => {
    const call = append()
    expect(await call.find(14 * 60)).toBe('absent')
    expect(await call.find(16 * 60)).toBe('unclear')
  })

  test('show their approvers the sheet, its first row, and who can read it', async () => {
    expect((await append({ spreadsheet: link }).seen()).fields).toEqual({
      'name of the spreadsheet': 'Orders',
      sheet: "It's 'A1'",
      'first row of the sheet': 'x',
      'the spreadsheet is shared with': 'bo@x.example',
      'Google account': 'ana@acme.example',
    })
    share([], { hidesPermissions: true })
    expect((await append().seen()).fields).toMatchObject({
      'first row of the sheet': 'name, total',
      'the spreadsheet is shared with': 'the account may not see who can read it',
    })
  })

  test('have another revision with another first row or other readers, and with nothing else', async () => {
    const { revision } = await append().seen()
    const now = async () => (await append().seen()).revision
    rowsOf('Sheet1')?.push(['Di', 2])
    expect(await now()).toBe(revision)
    share([{ type: 'anyone' }])
    expect(await now()).not.toBe(revision)
    share([{ type: 'user', emailAddress: 'bo@x.example' }])
    expect(await now()).toBe(revision)
    rowsOf('Sheet1')?.splice(0, 1, ['name', 'total', 'secret'])
    expect(await now()).not.toBe(revision)
  })

  test.each(['insufficientPermissions', 'accessNotConfigured'])(
    'say if Google hides who can read them: %s',
    async (reason) => {
      const body = JSON.stringify({ error: { errors: [{ reason }] } })
      proxy.choose = (_, path) => (path.includes('/permissions') ? { status: 403, body } : 'pass')
      expect((await append().seen()).fields).toMatchObject({
        'the spreadsheet is shared with': expect.stringContaining('needs the right `drive.readonly`'),
      })
    },
  )
})
