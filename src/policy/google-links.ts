/** Links longer than this are no file links; keeps the reading of long texts free. */
const longestLink = 4096

// With or without a scheme; user info and odd slashes only where there is a scheme, as browsers read them.
const fileHost =
  /^\s*(?:https?:[\\/]*(?:[^\s/\\?#]*@)?|[\\/]{2,})?(?:docs|drive|sheets|slides|spreadsheets)\.google\.com\.?(?::\d*)?(?=[/\\?#])/i

/**
 * The file id of a Google Docs, Sheets, Slides or Drive link, else null: `/d/ID`, `/d/e/ID`, `/folders/ID`, `?id=ID`
 * and `?key=ID`, with any account or domain prefix before it.
 */
export function googleFileId(text: string): string | null {
  if (text.length > longestLink || !/google/i.test(text)) return null
  const host = fileHost.exec(text)
  if (host === null) return null
  const rest = text.slice(host[0].length).trim().split('#', 1)[0] ?? ''
  const [path = '', query = ''] = rest.split('?', 2)
  const segments = decode(path).split(/[\\/]+/)
  for (const marker of ['d', 'folders']) {
    const at = segments.indexOf(marker)
    const next = at >= 0 && segments[at + 1] === 'e' && segments[at + 2] ? segments[at + 2] : segments[at + 1]
    if (at >= 0 && next !== undefined && isFileId(next)) return next
  }
  for (const pair of query.split(/[&;]/)) {
    const [name = '', value = ''] = pair.split('=', 2)
    if (/^(?:id|key)$/i.test(name) && isFileId(decode(value))) return decode(value)
  }
  return null
}

/** Text in the form in which it is compared: a Google link stands for its file's bare id (specification). */
export function comparable(text: string): string {
  return googleFileId(text) ?? text
}

/** Whether text that starts with `prefix` could still turn out to be a Google link. May say yes wrongly, never no. */
export function couldBecomeGoogleLink(prefix: string): boolean {
  const start = prefix.trimStart().toLowerCase()
  if (start === '' || /^(?:http|[\\/])/.test(start) || 'http'.startsWith(start)) return true
  return ['docs', 'drive', 'sheets', 'slides', 'spreadsheets'].some((name) => {
    const host = `${name}.google.com`
    return host.startsWith(start) || start.startsWith(host)
  })
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
