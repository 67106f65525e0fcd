import { type Handlers, Refused } from './api.ts'

export interface DriveFile {
  readonly id: string
  readonly name: string
  readonly mimeType: string
  readonly parents: readonly string[]
  readonly appProperties: Readonly<Record<string, string>>
  readonly text: string
  readonly shortcutDetails?: { readonly targetId: string; readonly targetMimeType: string }
  readonly permissions?: readonly DrivePermission[]
  /** The shared drive that contains the file. A file in a shared drive does not list its permissions itself. */
  readonly driveId?: string
  /** If set, the account may not see who can read this file. */
  readonly hidesPermissions?: true
}
export interface DrivePermission {
  readonly type: string
  readonly emailAddress?: string
  readonly domain?: string
}

export type Files = Map<string, DriveFile>

export const documentType = 'application/vnd.google-apps.document'
export const folderType = 'application/vnd.google-apps.folder'

function shown(file: DriveFile): object {
  const answer: Record<string, unknown> = {
    ...file,
    webViewLink: `https://docs.google.com/document/d/${file.id}/edit?usp=drivesdk`,
  }
  for (const name of ['text', 'hidesPermissions']) delete answer[name]
  if (file.driveId !== undefined || file.hidesPermissions === true) delete answer['permissions']
  return answer
}

/** The search of Drive. If `isIncomplete` is true, a search finds no files and says that files may be missing. */
export interface DriveSearch {
  isIncomplete: boolean
}

/** Returns the handlers of Drive. The handlers call `made` with each new file. */
export function driveHandlers(files: Files, search: DriveSearch, made: (file: DriveFile) => void): Handlers {
  let count = 0
  return {
    'drive.files.get': ({ path }) => {
      const file = files.get(path['fileId'] ?? '')
      if (file === undefined) throw new Refused(404, 'notFound')
      return shown(file)
    },
    'drive.permissions.list': ({ path, query }) => {
      const file = files.get(path['fileId'] ?? '')
      const isSeen = file?.driveId === undefined || query.get('supportsAllDrives') === 'true'
      if (file === undefined || !isSeen) throw new Refused(404, 'notFound')
      if (file.hidesPermissions === true) throw new Refused(403, 'insufficientFilePermissions')
      const { permissions = [] } = file
      const from = Number(query.get('pageToken') ?? 0)
      const to = from + Number(query.get('pageSize') ?? 100)
      return {
        kind: 'drive#permissionList',
        permissions: permissions.slice(from, to),
        ...(to < permissions.length ? { nextPageToken: String(to) } : {}),
      }
    },
    'drive.files.list': ({ query }) => {
      const matches = matcherOf(query.get('q') ?? '')
      const most = Number(query.get('pageSize') ?? 100)
      return {
        kind: 'drive#fileList',
        incompleteSearch: search.isIncomplete,
        files: (search.isIncomplete ? [] : [...files.values()]).filter(matches).slice(0, most).map(shown),
      }
    },
    'drive.files.create': ({ body, media }) => {
      const given = body as Partial<DriveFile>
      for (const parent of given.parents ?? [])
        if (parent !== 'root' && files.get(parent)?.mimeType !== folderType)
          throw new Refused(404, 'notFound')
      if (media !== null && media.type !== 'text/markdown') throw new Refused(400, 'badRequest')
      const file: DriveFile = {
        id: `1doc${(count += 1)}_made-by-the-stand-in`,
        name: given.name ?? 'Untitled',
        mimeType: given.mimeType ?? media?.type ?? 'application/octet-stream',
        parents: given.parents ?? ['root'],
        appProperties: given.appProperties ?? {},
        text: media?.text ?? '',
      }
      files.set(file.id, file)
      made(file)
      return shown(file)
    },
  }
}

const text = String.raw`'((?:[^'\\]|\\.)*)'`
const byProperty = new RegExp(`^appProperties has \\{ key=${text} and value=${text} \\}$`)
const byWords = new RegExp(`^\\(name contains ${text} or fullText contains ${text}\\) and trashed = false$`)
const plain = (quoted = ''): string => quoted.replaceAll(/\\(.)/g, '$1')

/** Returns a filter for a search query. Understands only the two kinds of queries that Countersign sends. */
function matcherOf(query: string): (file: DriveFile) => boolean {
  const [, key, value] = byProperty.exec(query) ?? []
  if (key !== undefined) return ({ appProperties }) => appProperties[plain(key)] === plain(value)
  const [, name, words] = byWords.exec(query) ?? []
  if (name === undefined) throw new Refused(400, 'invalid')
  const isIn = (where: string) =>
    plain(words)
      .toLowerCase()
      .split(/\s+/)
      .every((word) => where.toLowerCase().includes(word))
  return (file) => isIn(file.name) || isIn(file.text)
}
