import { createEmulator, defineEmulator } from 'emulate'
import { emulatorToken, type Emulator } from '../emulators.ts'
import { serve } from './api.ts'
import { type Calendars, calendarHandlers } from './calendar.ts'
import { docsHandlers, type Documents, imported } from './docs.ts'
import { documentType, driveHandlers, type DriveSearch, type Files } from './drive.ts'
import { sheetsHandlers, type Spreadsheets } from './sheets.ts'

/** The data that the stand-in holds. Tests may read and change it. */
export interface GoogleState {
  readonly calendars: Calendars
  readonly documents: Documents
  readonly files: Files
  readonly search: DriveSearch
  readonly spreadsheets: Spreadsheets
}

export interface GoogleEmulator extends Emulator {
  readonly state: GoogleState
}

const account = 'ana@acme.example'

const emptyState = (): GoogleState => ({
  calendars: new Map([['primary', { timeZone: 'Europe/Berlin', events: new Map(), invited: [] }]]),
  documents: new Map(),
  files: new Map(),
  search: { isIncomplete: false },
  spreadsheets: new Map(),
})

/**
 * Starts a stand-in for Google's calendar, documents, sheets and Drive, and for the token endpoint, at one address. The
 * Google emulator in the package `emulate` is not used. It has no documents and sheets, and its calendar ignores ids
 * that clients make. Each request to the APIs and each answer is checked (described.ts).
 */
export async function startGoogle(): Promise<GoogleEmulator> {
  const state = emptyState()
  const definition = defineEmulator<object>({
    name: 'google',
    state: () => ({}),
    setup({ app }) {
      app.use('*', async (c, next) => {
        // Programs look for the description of an authorization server, and send no token. This stand-in has no such
        // description, so programs must get 404 and not 401.
        const isOpen = c.req.path === '/token' || c.req.path.startsWith('/.well-known/')
        if (!isOpen && c.req.header('authorization') !== `Bearer ${emulatorToken}`)
          return c.json({ error: { code: 401, errors: [{ reason: 'authError' }] } }, 401)
        return next()
      })
      app.post('/token', (c) =>
        c.json({ access_token: emulatorToken, token_type: 'Bearer', expires_in: 3_600 }),
      )
      app.get('/oauth2/v2/userinfo', (c) => c.json({ email: account }))
      serve(app, 'calendar.v3', calendarHandlers(state.calendars))
      serve(app, 'docs.v1', docsHandlers(state.documents))
      serve(app, 'sheets.v4', sheetsHandlers(state.spreadsheets))
      serve(
        app,
        'drive.v3',
        driveHandlers(state.files, state.search, ({ id, name, mimeType, text }) => {
          if (mimeType === documentType) state.documents.set(id, imported(id, name, text))
        }),
      )
    },
  })
  const { url, close } = await createEmulator({ service: definition, port: 0 })
  return { url, close, state }
}

/** A credential that the stand-in accepts, for a connection to `base_url`. */
export const googleCredential = (base_url: string) => ({
  client_id: 'a-client',
  client_secret: 'its-secret',
  refresh_token: 'a-refresh-token',
  base_url,
})
