import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { startGoogle, type GoogleEmulator } from '../../../support/google/emulator.ts'
import { paragraph, tab } from '../../../support/google/docs.ts'
import { documentType, folderType } from '../../../support/google/drive.ts'
import { startScriptedServer, type ScriptedServer } from '../../../support/scripted-server.ts'
import { rejection } from '../call.ts'
import { GoogleCall } from './google-call.ts'

let google: GoogleEmulator
let scripted: ScriptedServer
const id = '1abc-DEF_ghi'
const link = `https://docs.google.com/document/d/${id}/edit?tab=t.0#heading=h.x`
const folder = 'folder-1'
beforeAll(async () => {
  ;[google, scripted] = await Promise.all([startGoogle(), startScriptedServer()])
})
afterAll(() => Promise.all([google?.close(), scripted?.close()]))
beforeEach(() => {
  google.state.files.clear()
  google.state.documents.clear()
  google.state.files.set(folder, {
    ...{ id: folder, name: 'Reports', mimeType: folderType, parents: [], appProperties: {}, text: '' },
    permissions: [{ type: 'anyone' }, { type: 'domain', domain: 'acme.example' }, { type: 'user', emailAddress: 'bo@x.example' }], // prettier-ignore
  })
  scripted.arrived.splice(0)
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

  test.each([7, 'x', [7], [{ documentTab: { body: { content: [{ paragraph: { elements: 'x' } }] } } }]])(
    'is empty for tabs of the form %j',
    async (tabs) => {
      scripted.answer = () => ({ status: 200, body: { documentId: id, tabs } })
      expect(await read(id, scripted.url).make<Read>()).toMatchObject({ title: '' })
    },
  )
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

  test.each([folder, `https://drive.google.com/drive/folders/${folder}?usp=sharing`])(
    'is in the folder %s',
    async (given) => {
      const { document_id: made } = await create({ folder: given }).make<Made>()
      expect(google.state.files.get(made)?.parents).toEqual([folder])
    },
  )

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
    expect(await rejection(create({ folder: 'nothing' }).make())).toMatchObject({ code: 'google_not_found' })
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
  const file = (name: string, more = {}) =>
    google.state.files.set(name, { id: name, name, mimeType: 'text/plain', parents: [], appProperties: {}, text: 'plain', ...more }) // prettier-ignore

  test('finds words in names and texts, at most as many as asked', async () => {
    for (const name of ['q3-plan', 'q3-facts']) file(name)
    file('other', { text: 'about q3-plans' })
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
    file('short', { shortcutDetails: { targetId: 'target', targetMimeType: documentType } })
    expect(await search({ query: 'short' }).make()).toEqual({
      incomplete: false,
      files: [expect.objectContaining({ id: 'target', media_type: documentType, name: 'short' })],
    })
  })

  test.each([`it's`, `a\\`, `') or trashed = true or (name contains '`])(
    'takes %j as words, not as a part of the query',
    async (query) => {
      file('secret')
      file('named', { name: query })
      expect((await search({ query }).make<{ files: { id: string }[] }>()).files).toEqual([
        expect.objectContaining({ id: 'named' }),
      ])
    },
  )
})
