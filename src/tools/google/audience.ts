import { drive } from '@googleapis/drive'
import { z } from 'zod'
import type { Reader } from '../../policy/audience.ts'
import { connectionLacksScope } from '../../governance/tools/connections.ts'
import { listOf } from '../kit/bounded-list.ts'
import { ToolError } from '../kit/executor.ts'
import type { AudienceReaderOf } from '../kit/params.ts'
import { googleOf, type Google } from './client.ts'
import { fileIdAt } from './place.ts'

/*
 * Reads who can read a file or folder. The description of a file in a shared drive does not name the file's readers. So
 * the readers are taken from Google's list of permissions. The list also contains people who can read the file because
 * they can read a folder above it.
 */

const { permissions } = drive('v3')

const permission = z.object({
  type: z.string(),
  emailAddress: z.string().optional(),
  domain: z.string().optional(),
})
export type Permission = z.output<typeof permission>

const listed = z.object({
  kind: z.literal('drive#permissionList'),
  nextPageToken: z.string().max(10_000).optional(),
  permissions: listOf(permission),
})

/** At most this many pages of 100 permissions are read. */
const mostPages = 10

/**
 * Returns all permissions. Returns null if there are more than 1,000. Throws ToolError. The code of this error is
 * `google_forbidden` if the account may not see the permissions.
 */
export async function permissionsOf(google: Google, fileId: string): Promise<readonly Permission[] | null> {
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
    throw new ToolError('google_readers_hidden', message, { retryable: false, cause: error })
  })
  if (all === null) return [{ kind: 'anybody' }]
  return all.filter((each) => !isAccount(each, google.account)).map(readerOf)
}

/**
 * Returns whether the permission belongs to the account that writes. This account may read everything that it writes,
 * so this account is not counted among the readers.
 */
const isAccount = ({ type, emailAddress }: Permission, account: string | null): boolean =>
  type === 'user' && account !== null && emailAddress?.toLowerCase() === account.toLowerCase()

function readerOf({ type, emailAddress, domain }: Permission): Reader {
  if (type === 'domain' && domain !== undefined) return { kind: 'domain', domain }
  const isNamed = (type === 'user' || type === 'group') && emailAddress !== undefined
  return isNamed ? { kind: 'address', address: emailAddress } : { kind: 'anybody' }
}

/**
 * Returns who can read the folder of the new document. Without `folder`, the document is in the account's own Drive.
 * Only this account can read a document there, so the list is empty.
 */
export const audienceOfFolder: AudienceReaderOf<'docs_create'> = async (call, context) => {
  const { folder } = call.params
  if (folder === undefined) return []
  return readersOf(await googleOf(call, context, 'docs_create'), fileIdAt('folder', folder))
}

/**
 * Returns who can read the spreadsheet. Asks with the OAuth scope of `drive_search`, because the scope of
 * `sheets_append` does not show who can read a file.
 */
export const audienceOfSpreadsheet: AudienceReaderOf<'sheets_append'> = async (call, context) => {
  try {
    const google = await googleOf(call, context, 'drive_search')
    return await readersOf(google, fileIdAt('spreadsheet', call.params.spreadsheet))
  } catch (error) {
    if (!lacksRight(error)) throw error
    const message = `${hidden} the connection to Google was made without the right \`drive.readonly\`, which shows who can: connect it again, and grant this right`
    throw new ToolError(connectionLacksScope, message, { retryable: false, cause: error })
  }
}

/** Returns true if the error says that the connection lacks a right which the request needs. */
export const lacksRight = (error: unknown): boolean =>
  error instanceof ToolError && (error.code === connectionLacksScope || error.code === 'google_missing_scope')
