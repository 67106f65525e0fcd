import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { audienceReaders } from '../../../../src/activities/tools/index.ts'
import type { ToolName } from '../../../../src/catalog/index.ts'
import { catalog } from '../../../../src/catalog/index.ts'
import { startFaultProxy, type FaultProxy } from '../../../support/fault-proxy.ts'
import { folderType, type DriveFile } from '../../../support/google/drive.ts'
import { startGoogle, type GoogleEmulator } from '../../../support/google/emulator.ts'
import { startScriptedServer, type ScriptedServer } from '../../../support/scripted-server.ts'
import { rejection } from '../call.ts'
import { hostileAnswers } from '../faults/hostile.ts'
import { GoogleCall } from './google-call.ts'

/* The readers of a call's target, according to Google. */

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
})

const own = { type: 'user', emailAddress: 'Ana@acme.example' }
const put = (more: Partial<DriveFile>) =>
  google.state.files.set('place', {
    ...{ id: 'place', name: 'Reports', mimeType: folderType, parents: [], appProperties: {}, text: '' },
    ...more,
  })

const tools = [
  ['docs_create', { title: 't', content: 'c', folder: 'https://drive.google.com/drive/folders/place' }],
  ['sheets_append', { spreadsheet: 'place', rows: [['a']] }],
] as const satisfies readonly (readonly [ToolName, object])[]

test('every tool whose policies limit who can read has a reader', () => {
  const asking = Object.values(catalog).filter(({ constraints }) =>
    Object.values<string>(
      (constraints as { allowed_domains?: Record<string, string> }).allowed_domains ?? {},
    ).includes('audience'),
  )
  expect(asking.map(({ name }) => name).sort()).toEqual(Object.keys(audienceReaders).sort())
})

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
    put({ permissions, ...where })
    expect(await audience()).toEqual([
      { kind: 'address', address: 'bo@x.example' },
      { kind: 'address', address: 'team@acme.example' },
      { kind: 'domain', domain: 'acme.example' },
      { kind: 'anybody' },
      { kind: 'anybody' },
      { kind: 'anybody' },
    ])
    // Without the account's name, the permission of this account could be that of another person.
    expect(await audience({ account: null })).toContainEqual({ kind: 'address', address: 'Ana@acme.example' })
  })

  test('reads all pages, and does not guess what follows 1,000 people', async () => {
    const people = (count: number) =>
      Array.from({ length: count }, (_, index) => ({ type: 'user', emailAddress: `p${index}@a.example` }))
    put({ permissions: people(1_000) })
    expect(await audience()).toHaveLength(1_000)
    put({ permissions: people(1_001) })
    expect(await audience()).toEqual([{ kind: 'anybody' }])
  })

  test('fails if the account may not see who can read the place', async () => {
    put({ hidesPermissions: true })
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
  put({})
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
