import { normalHost } from './hosts.ts'

/** Links longer than this are no file links; keeps the reading of long texts free. */
const longestLink = 4096

// With or without a scheme; user info and odd slashes only where there is a scheme, as browsers read them.
const linkStart = /^\s*(?:https?:[\\/]*(?:[^\s/\\?#]*@)?|[\\/]{2,})?([^\s/\\?#@:]+)(?::\d*)?(?=[/\\?#])/i
const fileHosts = new Set([
  ...['docs', 'drive', 'sheets', 'slides', 'spreadsheets', 'drive.usercontent'].map(
    (name) => `${name}.google.com`,
  ),
  'lh3.googleusercontent.com',
])

/**
 * The file id of a Google Docs, Sheets, Slides or Drive link, else null: `/d/ID`, `/d/e/ID`, `/folders/ID`, `?id=ID`,
 * `?srcid=ID` and `?key=ID`, with any account or domain prefix before it. The host is read as browsers read it.
 */
export function googleFileId(text: string): string | null {
  if (text.length > longestLink) return null
  const link = text.replace(/[\t\n\r]/g, '')
  const host = linkStart.exec(link)
  if (host === null || !isFileHost(host[1] ?? '')) return null
  const rest = link.slice(host[0].length).trim().split('#', 1)[0] ?? ''
  const [path = '', query = ''] = rest.split('?', 2)
  const segments = decode(path)
    .split(/[\\/]+/)
    .map((segment) => segment.split(';', 1)[0] ?? '')
  for (const marker of ['d', 'folders']) {
    const at = segments.indexOf(marker)
    const next = at >= 0 && segments[at + 1] === 'e' && segments[at + 2] ? segments[at + 2] : segments[at + 1]
    if (at >= 0 && next !== undefined && isFileId(next)) return next
  }
  for (const pair of query.split(/[&;]/)) {
    const [name = '', value = ''] = pair.split('=', 2)
    if (/^(?:id|srcid|key)$/i.test(name) && isFileId(decode(value))) return decode(value)
  }
  return null
}

/** Full-width letters, ideographic full stops and percent-encoding hide nothing. */
function isFileHost(host: string): boolean {
  if (/^[a-z0-9.]+$/i.test(host)) return fileHosts.has(host.toLowerCase().replace(/\.$/, ''))
  const normal = normalHost(host)
  return normal !== null && fileHosts.has(normal)
}

/** Text in the form in which it is compared: a Google link stands for its file's bare id (specification). */
export function comparable(text: string): string {
  return googleFileId(text) ?? text
}

/** Whether text that starts with `prefix` could still turn out to be a Google link. May say yes wrongly, never no. */
export function couldBecomeGoogleLink(prefix: string): boolean {
  const start = prefix
    .replace(/[\t\n\r]/g, '')
    .trimStart()
    .toLowerCase()
  if (start === '' || /^(?:http|[\\/])/.test(start) || 'http'.startsWith(start)) return true
  // Spelled in a way that has to be read first.
  if (/^[a-z0-9.]*[^ -~]|^[a-z0-9.]*%/.test(start)) return true
  return [...fileHosts].some((host) => host.startsWith(start) || start.startsWith(host))
}

export function isFileId(text: string): boolean {
  return /^[A-Za-z0-9_-]+$/.test(text)
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
