import { readFileSync } from 'node:fs'
import type { Json } from '../../../src/policy/types.ts'
import { googleCredential, type GoogleEmulator, startGoogle } from '../../support/google/emulator.ts'
import type { CalendarEvent } from '../../support/google/calendar.ts'
import { imported } from '../../support/google/docs.ts'
import { folderType, type DriveFile } from '../../support/google/drive.ts'
import type { FaultService, StandIn } from '../faults/service.ts'
import { idsOf } from '../stand-in.ts'

const refusing = (status: number, reason: string) => ({
  status,
  body: JSON.stringify({ error: { code: status, message: 'secret words', errors: [{ reason }] } }),
})

const folder = 'a-folder'
const aFolder = (id: string): DriveFile => ({
  id,
  name: 'Reports',
  mimeType: folderType,
  parents: ['root'],
  appProperties: {},
  text: '',
})

const spreadsheet = 'a-spreadsheet'

/** Starts one stand-in for all parts of Google. */
async function start(): Promise<GoogleEmulator> {
  const google = await startGoogle()
  // This calendar makes two events if a request is sent twice.
  google.state.calendars.set('primary', {
    ...{ timeZone: 'Europe/Berlin', events: new Map(), invited: [], forgetsIds: true },
  })
  google.state.files.set(folder, aFolder(folder))
  google.state.documents.set('a-document', imported('a-document', 'Notes', '# Hello'))
  google.state.spreadsheets.set(spreadsheet, {
    title: 'Orders',
    sheets: [{ sheetId: 0, title: 'Sheet1', rows: [['name', 'total']] }],
    metadata: [],
  })
  return google
}

const pages = 'https://developers.google.com/workspace'

function standIn(name: 'calendar.v3' | 'docs.v1' | 'drive.v3' | 'sheets.v4'): StandIn {
  const path = new URL(`../../support/google/descriptions/${name}.json`, import.meta.url)
  const { source, revision, methods } = JSON.parse(readFileSync(path, 'utf8')) as {
    readonly source: string
    readonly revision: string
    readonly methods: readonly { readonly id: string }[]
  }
  return {
    service: `Google ${name}`,
    standIn: 'our own',
    checked: `Google’s discovery document of revision ${revision}, from \`${source.replace(' ', '` ')}: paths, parameters, fields, types and values of each request and answer of ${idsOf(methods)}`,
    not: 'what the document says in words: limits, rights, which fields go together',
  }
}

const common = {
  name: 'google',
  start,
  credential: googleCredential,
  cannotLook: refusing(403, 'forbidden'),
  refusals: {
    'the token was revoked': [refusing(401, 'authError'), 'connection_expired'],
    'a right is missing': [refusing(403, 'forbidden'), 'google_forbidden'],
    'a scope is missing': [refusing(403, 'insufficientPermissions'), 'google_missing_scope'],
    'the API is turned off': [refusing(403, 'accessNotConfigured'), 'google_api_disabled'],
    '400 comes back': [refusing(400, 'invalid'), 'google_refused'],
    '404 comes back': [refusing(404, 'notFound'), 'google_not_found'],
    'the limit comes back as 403': [refusing(403, 'userRateLimitExceeded'), 'google_rate_limited'],
  },
  codes: { rateLimited: 'google_rate_limited', redirected: 'google_redirected' },
} as const satisfies Partial<FaultService>

const codes = {
  tooLarge: 'response_too_large',
  badAnswer: 'google_bad_answer',
  unavailable: 'google_unavailable',
}

export const googleCalendar: FaultService = {
  ...common,
  part: 'calendar',
  place: 'primary',
  tools: {
    calendar_create_event: {
      readsBefore: 1,
      params: (text, place) => ({ title: text, calendar: place, start: '2026-12-01T15:00' }),
      async made(ask, text, place): Promise<Json[]> {
        const path = `/calendar/v3/calendars/${place}/events`
        const { items } = (await ask('GET', path)) as unknown as { items: CalendarEvent[] }
        return items
          .filter(({ summary }) => summary === text)
          .map(({ id, htmlLink, start, end }) => ({
            event_id: id,
            url: htmlLink as string,
            start: start.dateTime,
            end: end.dateTime,
            meeting_url: null,
          }))
      },
    },
  },
  reads: { codes, tools: {} },
  isWrite: (method, path) => method === 'POST' && path.includes('/events'),
  emptyList: refusing(404, 'notFound'),
  standIns: [standIn('calendar.v3')],
  assumptions: [
    {
      service: 'Google Calendar',
      what: 'An event can be read by its id 60 s after its request was sent, if Google has made it. A taken id is not always reported.',
      page: `${pages}/calendar/api/v3/reference/events`,
    },
    {
      service: 'Google Calendar',
      what: 'A list of events names the time zone of the calendar, also with the scope `calendar.events` alone.',
      page: `${pages}/calendar/api/v3/reference/events/list`,
    },
    {
      service: 'Google Calendar',
      what: 'The link to a video meeting is made asynchronously. Until then the event has a conference that is `pending`.',
      page: `${pages}/calendar/api/v3/reference/events`,
    },
    {
      service: 'Google Calendar',
      what: 'Each account may send about 600 requests in a minute. More is answered with 403 or 429 and was not carried out.',
      page: `${pages}/calendar/api/guides/quota`,
    },
  ],
}

export const googleDocs: FaultService = {
  ...common,
  part: 'documents',
  place: folder,
  tools: {
    docs_create: {
      params: (text, place) => ({
        title: text,
        content: '# Hello',
        folder: `https://drive.google.com/drive/folders/${place}`,
      }),
      async made(ask, text): Promise<Json[]> {
        const q = `(name contains '${text}' or fullText contains '${text}') and trashed = false`
        const { files } = (await ask('GET', `/drive/v3/files?q=${encodeURIComponent(q)}`)) as unknown as {
          files: { id: string }[]
        }
        return files.map(({ id }) => ({
          document_id: id,
          url: `https://docs.google.com/document/d/${id}/edit`,
        }))
      },
    },
  },
  reads: {
    codes,
    tools: { docs_read: () => ({ document: 'a-document' }), drive_search: () => ({ query: 'hello' }) },
  },
  isWrite: (_, path) => path.startsWith('/upload/'),
  emptyList: { status: 200, body: '{"kind":"drive#fileList","files":[]}' },
  standIns: [standIn('docs.v1'), standIn('drive.v3')],
  assumptions: [
    {
      service: 'Google Docs',
      what: 'Each account may send 300 requests that read in a minute. More is answered with 429.',
      page: `${pages}/docs/api/limits`,
    },
    {
      service: 'Google Drive',
      what: 'Requests beyond the limits of an account are answered with 403 or 429, and were not carried out.',
      page: `${pages}/drive/api/guides/limits`,
    },
    {
      service: 'Google Drive',
      what: 'The search finds a new file by its properties within 300 s.',
      page: null,
      withoutPage:
        'Google names no time. If it takes longer, a document whose answer was lost can be made twice.',
    },
    {
      service: 'Google Drive',
      what: 'A folder that a person has made needs the scope `drive` for a new document in it; `drive.file` reaches only files of the client itself.',
      page: `${pages}/drive/api/guides/api-specific-auth`,
    },
    {
      service: 'Google Drive',
      what: 'The permissions of a file or folder name everybody who can read it, also through a folder or shared drive above it. A group is named, and its members are not.',
      page: `${pages}/drive/api/guides/manage-sharing`,
    },
  ],
}

export const googleSheets: FaultService = {
  ...common,
  part: 'sheets',
  place: spreadsheet,
  tools: {
    sheets_append: {
      readsBefore: 2,
      params: (text, place) => ({ spreadsheet: place, rows: [[text, 1]] }),
      async made(ask, text, place): Promise<Json[]> {
        const path = `/v4/spreadsheets/${place}/values/${encodeURIComponent("'Sheet1'")}`
        const { values } = (await ask('GET', path)) as unknown as { values: Json[][] }
        return values
          .filter(([name]) => name === text)
          .map(() => ({ spreadsheet_id: place, sheet: 'Sheet1', rows: 1 }))
      },
    },
  },
  reads: { codes, tools: { sheets_read: (place) => ({ spreadsheet: place }) } },
  isWrite: (_, path) => path.includes(':batchUpdate'),
  // One body answers both requests of a look: a spreadsheet without marks.
  emptyList: {
    status: 200,
    body: '{"spreadsheetId":"a-spreadsheet","sheets":[{"properties":{"title":"Sheet1"}}]}',
  },
  standIns: [standIn('sheets.v4')],
  assumptions: [
    {
      service: 'Google Sheets',
      what: 'Either all parts of a `batchUpdate` are carried out, or none.',
      page: `${pages}/sheets/api/limits`,
    },
    {
      service: 'Google Sheets',
      what: 'Google works on one request for at most 180 s.',
      page: `${pages}/sheets/api/limits`,
    },
    {
      service: 'Google Sheets',
      what: 'A metadata id is taken once in a spreadsheet, and a spreadsheet has room for 30,000 characters of metadata.',
      page: `${pages}/sheets/api/guides/metadata`,
    },
    {
      service: 'Google Sheets',
      what: 'Each account may send 60 requests that read and 60 that write in a minute. More is answered with 429, without a pause to wait.',
      page: `${pages}/sheets/api/limits`,
    },
    {
      service: 'Google Sheets',
      what: 'A mark can be found as soon as its request has ended.',
      page: null,
      withoutPage:
        'Google names no delay. If there is one, Google still refuses the second request, because the id of its mark is taken.',
    },
  ],
}
