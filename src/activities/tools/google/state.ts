import { drive } from '@googleapis/drive'
import { z } from 'zod'
import { hashOf } from '../../../shared/canonical-json.ts'
import type { State } from '../executor.ts'
import type { StateReaderOf } from '../params.ts'
import { plannedEvent } from './calendar.ts'
import { googleOf } from './client.ts'
import { fileIdAt } from './place.ts'
import { sheetOf } from './sheets.ts'

/* What approvers see of a call besides its parameters. The account belongs to it: the same id may name another thing there. */

const { files } = drive('v3')

const accountShown = (account: string | null) => ({
  'Google account': account ?? 'Google does not say whose it is',
})

/** When the event would start, in whose calendar. */
export const readEvent: StateReaderOf<'calendar_create_event'> = async (call, context) => {
  const google = await googleOf(call, context, 'calendar_create_event')
  const { revision, local, timeZone } = await plannedEvent(google, call.params)
  return { revision, fields: { starts: `${local} (${timeZone})`, ...accountShown(google.account) } }
}

const permission = z.object({
  type: z.string(),
  emailAddress: z.string().optional(),
  domain: z.string().optional(),
})
const aFolder = z.object({
  id: z.string(),
  name: z.string().default(''),
  driveId: z.string().optional(),
  permissions: z.array(z.unknown()).max(1_000).pipe(z.array(permission)).optional(),
})

/** People that are named; the rest is a number. */
const mostNamed = 10

function sharedWith(permissions: z.output<typeof aFolder>['permissions']): string {
  if (permissions === undefined) return 'the account may not see who can read it'
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

/** Where a document would be made, and who could read it there. */
export const readFolder: StateReaderOf<'docs_create'> = async (call, context): Promise<State> => {
  const google = await googleOf(call, context, 'docs_create')
  const account = accountShown(google.account)
  const { folder } = call.params
  if (folder === undefined) return { revision: hashOf({ account: google.account }), fields: account }
  const fileId = fileIdAt('folder', folder)
  const fields = 'id,name,driveId,permissions(type,emailAddress,domain)'
  const found = await google.read('drive', aFolder, (options) =>
    files.get({ fileId, supportsAllDrives: true, fields }, options),
  )
  const seen = {
    'name of the folder': found.name,
    'the folder is in': found.driveId === undefined ? 'the Drive of a person' : 'a shared drive',
    'the folder is shared with': sharedWith(found.permissions),
  }
  return { revision: hashOf({ account: google.account, ...seen }), fields: { ...seen, ...account } }
}

/** The names of the spreadsheet and the sheet that rows are added to. */
export const readSheet: StateReaderOf<'sheets_append'> = async (call, context) => {
  const google = await googleOf(call, context, 'sheets_append')
  const { spreadsheetTitle, title } = await sheetOf(google, call.params)
  const seen = { 'name of the spreadsheet': spreadsheetTitle, sheet: title }
  return {
    revision: hashOf({ account: google.account, ...seen }),
    fields: { ...seen, ...accountShown(google.account) },
  }
}
