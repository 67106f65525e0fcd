import { drive } from '@googleapis/drive'
import { z } from 'zod'
import { connectionLacksScope } from '../../contract/tool-services.ts'
import type { Reader } from '../../policy/audience.ts'
import type { Json } from '../../policy/types.ts'
import { hashOf } from '../../shared/canonical-json.ts'
import { listOf } from '../kit/exchange.ts'
import {
  ToolError,
  type AudienceReaderOf,
  type ReadContext,
  type State,
  type StateReaderOf,
} from '../kit/executor.ts'
import { plannedEvent } from './calendar.ts'
import { fileIdAt, googleOf, type Google } from './client.ts'
import { firstRowOf, sheetOf } from './sheets.ts'

/* For a file in a shared drive, only the list of permissions names its readers, also those of its folders. */

const { files, permissions } = drive('v3')

const permission = z.object({
  type: z.string(),
  emailAddress: z.string().optional(),
  domain: z.string().optional(),
})
type Permission = z.output<typeof permission>

const listed = z.object({
  kind: z.literal('drive#permissionList'),
  nextPageToken: z.string().max(10_000).optional(),
  permissions: listOf(permission),
})

/** A page has 100 permissions. */
const mostPages = 10

/** Null for more than 1,000. Throws `google_forbidden` if the account may not see the permissions. */
async function permissionsOf(google: Google, fileId: string): Promise<readonly Permission[] | null> {
  const all: Permission[] = []
  let pageToken: string | undefined
  for (let page = 0; page < mostPages; page += 1) {
    const found = await google.read('drive', listed, (options) =>
      permissions.list(
        {
          fileId,
          supportsAllDrives: true,
          pageSize: 100,
          fields: 'kind,nextPageToken,permissions(type,emailAddress,domain)',
          ...(pageToken === undefined ? {} : { pageToken }),
        },
        options,
      ),
    )
    all.push(...found.permissions)
    pageToken = found.nextPageToken
    if (pageToken === undefined) return all
  }
  return null
}

const hidden = 'a tool policy limits who may read this place (`allowed_domains`), and'

async function readersOf(google: Google, fileId: string): Promise<readonly Reader[]> {
  const all = await permissionsOf(google, fileId).catch((error: unknown) => {
    if (!(error instanceof ToolError) || error.code !== 'google_forbidden') throw error
    const message = `${hidden} Google does not show the connected account who can: let the account share the place, or use another one`
    throw new ToolError('google_readers_hidden', message, { cause: error })
  })
  if (all === null) return [{ kind: 'anybody' }]
  return all.filter((each) => !isAccount(each, google.account)).map(readerOf)
}

/** The account that writes may read all that it writes, and is not counted. */
const isAccount = ({ type, emailAddress }: Permission, account: string | null): boolean =>
  type === 'user' && account !== null && emailAddress?.toLowerCase() === account.toLowerCase()

function readerOf({ type, emailAddress, domain }: Permission): Reader {
  if (type === 'domain' && domain !== undefined) return { kind: 'domain', domain }
  const isNamed = (type === 'user' || type === 'group') && emailAddress !== undefined
  return isNamed ? { kind: 'address', address: emailAddress } : { kind: 'anybody' }
}

/** Without `folder`, the document is in the account's own Drive, where nobody else can read it. */
export const audienceOfFolder: AudienceReaderOf<'docs_create'> = async (call, context) => {
  const { folder } = call.params
  if (folder === undefined) return []
  return readersOf(await googleOf(call, context, 'docs_create'), fileIdAt('folder', folder))
}

/** With the scope of `drive_search`, because that of `sheets_append` does not show who can read a file. */
export const audienceOfSpreadsheet: AudienceReaderOf<'sheets_append'> = async (call, context) => {
  try {
    const google = await googleOf(call, context, 'drive_search')
    return await readersOf(google, fileIdAt('spreadsheet', call.params.spreadsheet))
  } catch (error) {
    if (!lacksRight(error)) throw error
    const message = `${hidden} the connection to Google was made without the right \`drive.readonly\`, which shows who can: connect it again, and grant this right`
    throw new ToolError(connectionLacksScope, message, { cause: error })
  }
}

/** The connection lacks a right which the request needs. */
const lacksRight = (error: unknown): boolean =>
  error instanceof ToolError && (error.code === connectionLacksScope || error.code === 'google_missing_scope')

/* The state beside the parameters. An id may name another thing in another account, so the account is in it. */

const accountShown = (account: string | null) => ({
  'Google account': account ?? 'Google does not say whose it is',
})

export const readEvent: StateReaderOf<'calendar_create_event'> = async (call, context) => {
  const google = await googleOf(call, context, 'calendar_create_event')
  const { revision, local, timeZone } = await plannedEvent(google, call.params)
  return { revision, fields: { starts: `${local} (${timeZone})`, ...accountShown(google.account) } }
}

const aFolder = z.object({ id: z.string(), name: z.string().default(''), driveId: z.string().optional() })

/** Approvers see so many names, and the number of the others. */
const mostNamed = 10

/** Null for more than 1,000. `hidden`: the account may not see it. `no right`: the connection may not ask. */
type Sharing = readonly Permission[] | null | 'hidden' | 'no right'

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
  if (permissions === 'no right')
    return 'unknown: the connection needs the right `drive.readonly`, and its client the Drive API'
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
  return {
    revision: hashOf({ account: google.account, ...seen, who: everybodyIn(sharing) }),
    fields: { ...seen, ...account },
  }
}

/** Approvers see only some of the readers, but the revision covers all. */
const everybodyIn = (sharing: Sharing): Json =>
  typeof sharing === 'string' || sharing === null
    ? sharing
    : sharing.map((each) => JSON.stringify(each)).toSorted()

const isTurnedOff = (error: unknown): boolean =>
  error instanceof ToolError && error.code === 'google_api_disabled'

async function sharingOfSpreadsheet(
  call: Parameters<typeof readSheet>[0],
  context: ReadContext,
): Promise<Sharing> {
  try {
    const google = await googleOf(call, context, 'drive_search')
    return await sharingOf(google, fileIdAt('spreadsheet', call.params.spreadsheet))
  } catch (error) {
    if (lacksRight(error) || isTurnedOff(error)) return 'no right'
    throw error
  }
}

export const readSheet: StateReaderOf<'sheets_append'> = async (call, context) => {
  const google = await googleOf(call, context, 'sheets_append')
  const sheet = await sheetOf(google, call.params)
  const firstRow = await firstRowOf(google, sheet)
  const sharing = await sharingOfSpreadsheet(call, context)
  const seen = {
    'name of the spreadsheet': sheet.spreadsheetTitle,
    sheet: sheet.title,
    'first row of the sheet': firstRow.map(String).join(', ') || 'empty',
    'the spreadsheet is shared with': sharedWith(sharing),
  }
  return {
    revision: hashOf({ account: google.account, ...seen, firstRow, who: everybodyIn(sharing) }),
    fields: { ...seen, ...accountShown(google.account) },
  }
}
