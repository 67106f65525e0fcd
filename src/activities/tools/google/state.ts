import { drive } from '@googleapis/drive'
import { z } from 'zod'
import { hashOf } from '../../../shared/canonical-json.ts'
import { ToolError, type State } from '../executor.ts'
import type { StateReaderOf } from '../params.ts'
import { type Permission, permissionsOf } from './audience.ts'
import { plannedEvent } from './calendar.ts'
import { googleOf, type Google } from './client.ts'
import { fileIdAt } from './place.ts'
import { sheetOf } from './sheets.ts'

/*
 * The state that approvers see besides the parameters of a call. The account is part of this state: the same id may
 * name another thing in another account.
 */

const { files } = drive('v3')

const accountShown = (account: string | null) => ({
  'Google account': account ?? 'Google does not say whose it is',
})

/** Reads when the event would start, and with which account. */
export const readEvent: StateReaderOf<'calendar_create_event'> = async (call, context) => {
  const google = await googleOf(call, context, 'calendar_create_event')
  const { revision, local, timeZone } = await plannedEvent(google, call.params)
  return { revision, fields: { starts: `${local} (${timeZone})`, ...accountShown(google.account) } }
}

const aFolder = z.object({
  id: z.string(),
  name: z.string().default(''),
  driveId: z.string().optional(),
})

/** The most people that are named. For the others only their number is shown. */
const mostNamed = 10

/** `hidden`: the account may not see who can read the folder. null: more than 1,000 can. */
type Sharing = readonly Permission[] | null | 'hidden'

async function sharingOf(google: Google, fileId: string): Promise<Sharing> {
  try {
    return await permissionsOf(google, fileId)
  } catch (error) {
    if (error instanceof ToolError && error.code === 'google_forbidden') return 'hidden'
    throw error
  }
}

function sharedWith(permissions: Sharing): string {
  if (permissions === 'hidden') return 'the account may not see who can read it'
  if (permissions === null) return 'more than 1,000 people, groups or domains'
  const open = permissions.some(({ type }) => type === 'anyone') ? ['anyone with the link'] : []
  const domains = permissions
    .filter(({ type }) => type === 'domain')
    .map(({ domain = 'a domain' }) => `everybody in ${domain}`)
  const people = permissions
    .filter(({ type }) => type === 'user' || type === 'group')
    .map(({ emailAddress = 'somebody' }) => emailAddress)
  const more = people.length > mostNamed ? [`${people.length - mostNamed} more`] : []
  return [...open, ...domains, ...people.slice(0, mostNamed), ...more].join(', ') || 'nobody'
}

/** Reads the folder of the new document, and who could read the document there. */
export const readFolder: StateReaderOf<'docs_create'> = async (call, context): Promise<State> => {
  const google = await googleOf(call, context, 'docs_create')
  const account = accountShown(google.account)
  const { folder } = call.params
  if (folder === undefined) return { revision: hashOf({ account: google.account }), fields: account }
  const fileId = fileIdAt('folder', folder)
  const fields = 'id,name,driveId'
  const found = await google.read('drive', aFolder, (options) =>
    files.get({ fileId, supportsAllDrives: true, fields }, options),
  )
  const sharing = await sharingOf(google, fileId)
  const seen = {
    'name of the folder': found.name,
    'the folder is in': found.driveId === undefined ? 'the Drive of a person' : 'a shared drive',
    'the folder is shared with': sharedWith(sharing),
  }
  // Approvers see only some of the people, but the revision covers all of them.
  const who = Array.isArray(sharing) ? sharing.map((each) => JSON.stringify(each)).toSorted() : sharing
  return { revision: hashOf({ account: google.account, ...seen, who }), fields: { ...seen, ...account } }
}

/** Reads the names of the spreadsheet and of the sheet to which rows are added. */
export const readSheet: StateReaderOf<'sheets_append'> = async (call, context) => {
  const google = await googleOf(call, context, 'sheets_append')
  const { spreadsheetTitle, title } = await sheetOf(google, call.params)
  const seen = { 'name of the spreadsheet': spreadsheetTitle, sheet: title }
  return {
    revision: hashOf({ account: google.account, ...seen }),
    fields: { ...seen, ...accountShown(google.account) },
  }
}
