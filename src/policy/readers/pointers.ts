import { parse } from 'tldts'
import { normalHost } from './hosts.ts'

/** File endings that are top-level domains too. `отчёт.zip` is a file. */
const fileEndings = new Set(['zip', 'mov', 'md', 'py', 'sh', 'rs', 'pl', 'ps', 'cc', 'ai', 'app'])

/** The beginning of a link. Browsers need no slashes after `https:`. */
const schemes = /^(?:[^/@?#]*?:?[/\\]{2}|https?:[/\\]?)/i

/**
 * An address, a link or a host in a text: where its host begins and ends. `localEnd` is the place of the `@` of an
 * address.
 */
export interface Pointer {
  readonly hostFrom: number
  readonly hostTo: number
  readonly localEnd: number | null
}

/**
 * Reads a word as an address, a link or a host, as generously as any program. Returns null for any other word. `isAlone`
 * says that the whole text is this one word.
 */
export function pointerIn(text: string, isAlone: boolean): Pointer | null {
  const scheme = schemes.exec(text)?.[0]
  if (scheme !== undefined) {
    const ends = text.slice(scheme.length).search(/[/\\?#]/)
    const end = ends < 0 ? text.length : scheme.length + ends
    const at = text.lastIndexOf('@', end - 1)
    const from = at >= scheme.length ? at + 1 : scheme.length
    return { hostFrom: from, hostTo: withoutPort(text, from, end), localEnd: null }
  }
  const at = Math.max(text.lastIndexOf('@'), text.lastIndexOf('＠'))
  if (at < text.length - 1 && (at > 0 || (at === 0 && text.includes('.'))))
    return { hostFrom: at + 1, hostTo: withoutPort(text, at + 1, endOfHost(text, at + 1)), localEnd: at }
  const to = withoutPort(text, 0, endOfHost(text, 0))
  return isHost(text.slice(0, to), isAlone) ? { hostFrom: 0, hostTo: to, localEnd: null } : null
}

function endOfHost(text: string, from: number): number {
  const end = text.slice(from).search(/[/\\?#]/)
  return end < 0 ? text.length : from + end
}

function withoutPort(text: string, from: number, to: number): number {
  const port = /:\d{0,5}$/.exec(text.slice(from, to))
  return port === null ? to : to - port[0].length
}

/** Whether a word without a scheme is a host. Only a host whose last part is a top-level domain counts. */
function isHost(text: string, isAlone: boolean): boolean {
  if (text.length > 253 || !/[^.][.。．｡][^\d.]/.test(text)) return false
  const host = normalHost(text)
  const ending = host?.split('.').at(-1) ?? ''
  if (host === null || fileEndings.has(ending)) return false
  return (
    (isAlone || !ending.startsWith('xn--')) && parse(host, { allowPrivateDomains: true }).isIcann === true
  )
}

/** Returns the host as the internet writes it, if this differs from what stands in the text. */
export function hostNote(host: string): string | null {
  if (!/[^\0-\x7f]/.test(host)) return null
  return normalHost(host) ?? 'not a readable host'
}
