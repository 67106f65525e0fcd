import { normalHost } from './hosts.ts'
import { percentDecoded } from './text-variants.ts'

/** Longer texts are not read as links, so that long texts stay cheap. */
const longestLink = 4096

// Host and port. The scheme is optional; slashes, backslashes and user info may follow it, as in browsers.
const linkStart = /^\s*(?:https?:[\\/]*(?:[^\s/\\?#]*@)?|[\\/]{2,})?([^\s/\\?#@:]+)(?::\d*)?(?=[/\\?#])/i
const fileHosts = new Set([
  ...['docs', 'drive', 'sheets', 'slides', 'spreadsheets', 'drive.usercontent'].map(
    (name) => `${name}.google.com`,
  ),
  ...['3', '4', '5', '6'].map((place) => `lh${place}.googleusercontent.com`),
  'lh3.google.com',
])
/** The APIs for the same files: `/v1/documents/ID`, `/drive/v3/files/ID`. */
const apiHosts = new Set(['docs', 'sheets', 'slides', 'www'].map((name) => `${name}.googleapis.com`))
const linkMarkers = ['d', 'folders']
const apiMarkers = ['documents', 'spreadsheets', 'presentations', 'files']
const idNames = /^(?:id|srcid|key|docid|fileid|folderid)$/i

/** The id in a link of Docs, Sheets, Slides, Drive or their APIs. Host and path are read as browsers read them. */
export function googleFileId(text: string): string | null {
  if (text.length > longestLink) return null
  const link = text.replace(/[\t\n\r]/g, '')
  const host = linkStart.exec(link)
  const markers = host === null ? null : markersOf(host[1] ?? '')
  if (host === null || markers === null) return null
  const [rest = '', fragment = ''] = link.slice(host[0].length).trim().split('#', 2)
  const [path = '', query = ''] = rest.split('?', 2)
  // Old Drive links have the folder after the `#`.
  return idInPath(path, markers) ?? idInQuery(query) ?? idInPath(fragment, ['folders'])
}

function idInPath(path: string, markers: readonly string[]): string | null {
  if (!path.includes('%') && !markers.some((marker) => path.includes(marker))) return null
  const parts: string[] = []
  for (const written of path.split(/[\\/]/)) {
    const part = decode(written)
    if (part === '..') parts.pop()
    else if (part !== '.') parts.push(part)
  }
  const segments: string[] = []
  for (const part of parts) {
    // A decoded part can have slashes of its own.
    for (const piece of /[\\/]/.test(part) ? part.split(/[\\/]/) : [part]) {
      const end = piece.search(/[;:=]/)
      if (piece !== '' && end !== 0) segments.push(end < 0 ? piece : piece.slice(0, end))
    }
  }
  // A prefix for an account's domain, such as `/a/acme.com/`.
  if (segments[0] === 'a') segments.splice(0, 2)
  for (const marker of markers) {
    const at = segments.indexOf(marker)
    const next = at >= 0 && segments[at + 1] === 'e' && segments[at + 2] ? segments[at + 2] : segments[at + 1]
    if (at >= 0 && next !== undefined && isFileId(next)) return next
  }
  return null
}

function idInQuery(query: string): string | null {
  for (const pair of query.split(/[&;]/)) {
    const [name = '', value = ''] = pair.split('=', 2).map(decode)
    if (idNames.test(name) && isFileId(value)) return value
  }
  return null
}

/** The path segments before an id in links to this host, such as `d` in `/d/ID`; null if they have none. */
function markersOf(written: string): readonly string[] | null {
  // It decodes full-width letters, ideographic full stops and percent-encoding.
  const host = /^[a-z0-9.]+$/i.test(written) ? written.toLowerCase().replace(/\.$/, '') : normalHost(written)
  if (host === null) return null
  return fileHosts.has(host) ? linkMarkers : apiHosts.has(host) ? apiMarkers : null
}

/** The id in a link to the file, or the id itself, with or without white space around it. */
export function fileIdOf(text: string): string | null {
  const id = googleFileId(text) ?? text.trim()
  return isFileId(id) ? id : null
}

/** `primary`, or an address. Null for other characters, such as invisible ones, because Google may ignore them. */
export function calendarIdOf(text: string): string | null {
  const id = text.trim()
  return /^[!-~]+$/.test(id) ? id : null
}

/** A Google link becomes its file id. */
export function comparable(text: string): string {
  return googleFileId(text) ?? text
}

/** True may be wrong, false is always right. */
export function couldBecomeGoogleLink(prefix: string): boolean {
  const start = prefix
    .replace(/[\t\n\r]/g, '')
    .trimStart()
    .toLowerCase()
  if (start === '' || /^(?:http|[\\/])/.test(start) || 'http'.startsWith(start)) return true
  // The host must be decoded first, so it could become any.
  if (/^[a-z0-9.]*[^ -~]|^[a-z0-9.]*%/.test(start)) return true
  return [...fileHosts, ...apiHosts].some((host) => host.startsWith(start) || start.startsWith(host))
}

export function isFileId(text: string): boolean {
  return /^[A-Za-z0-9_-]+$/.test(text)
}

/** Unchanged if it cannot be decoded. */
const decode = (text: string): string => percentDecoded(text) ?? text
