import type { Budget } from '../budget.ts'
import { normalHost } from './hosts.ts'
import { hidesAddress, otherReadings, percentDecoded } from './text-variants.ts'

/** In normal form. Null: the text cannot be read as a host, and is outside every domain. */
export type Host = string | null

const plainAddress = /^[A-Za-z0-9._+-]+@([a-z0-9][a-z0-9.-]*[a-z])$/
// Browsers need no slashes after `https:`. Other schemes count only with slashes.
const urlStart = /^(?:(?:https?|ftp|wss?):[\\/]*|[A-Za-z][A-Za-z0-9+.-]*:[\\/]+|[\\/]{2,})/i

/** Their links lead to the host they name. For others this is unknown: `s3://acme.com` is a bucket. */
const hostScheme =
  /^(?:https?|wss?|s?ftps?|ssh|git|svn|rsync|smb|ldaps?|imaps?|smtps?|pop3s?|gopher|(?:git|svn)\+\w+|[\\/]+):?[\\/]*$/i
/** No host, or another link with the host (`view-source:https://acme.com`). */
const otherScheme = /^(?:javascript|vbscript|data|about|blob|filesystem|jar|view-source|feed|intent):/i

/**
 * Every host that some program could find: in each address of a list, in `Name <a@x>`, in links with user info, ports
 * and backslashes, and after any `@`, even in a link. If programs differ, the hosts of all readings, so that a
 * restrictive rule sees the worst. Blank text has none. Takes linear time, and spends while it reads, so a long list
 * throws BudgetExceeded early.
 */
export function hostsIn(text: string, budget: Budget): Host[] {
  budget.spend(text.length >> 5)
  const plain = plainAddress.exec(text)
  if (plain?.[1] !== undefined) return [normalHost(plain[1])]
  const hosts = new Set(hostsAsWritten(text, budget))
  for (const other of otherReadings(text)) {
    for (const host of hostsAsWritten(other, budget)) if (host !== null) hosts.add(host)
  }
  if (hidesAddress(text)) hosts.add(null)
  return [...hosts]
}

function hostsAsWritten(text: string, budget: Budget): ReadonlySet<Host> {
  const pieces = split(text)
  budget.spend(2 * pieces.length)
  const isLink = urlStart.test(pieces[0] ?? '')
  const hasOneReading = isLink && isLoneLink(text.trim(), pieces[0] ?? '')
  const hosts = new Set<Host>()
  pieces.forEach((piece, index) => {
    // A mail tool accepts `me` in a list of recipients, so it is never the rest of a link.
    const isRestOfLink = hasOneReading && index > 0 && !/:[\\/]/.test(piece) && piece !== 'me'
    for (const host of hostsInPiece(piece, budget)) if (host !== null || !isRestOfLink) hosts.add(host)
  })
  if (hostGoesOn.test(text)) hosts.add(null)
  const joined = asBrowsersJoin(text)
  if (joined !== text.trim() && (urlStart.test(joined) || otherScheme.test(joined))) {
    for (const host of hostsInPiece(joined, budget)) hosts.add(host)
  }
  return hosts
}

/** Mail libraries ignore white space in a host: `a@acme.com. evil.net`. Stops at the next `@`, for linear time. */
const hostGoesOn = /@[^\s@,;:<>()"]*(?:\.\s+|\s+\.\s*)[^\s,;<>]/

/** Without tabs, line breaks, and leading control characters: `https://acme.com\n.evil.net` goes to evil.net. */
function asBrowsersJoin(text: string): string {
  let start = 0
  while (start < text.length && text.charCodeAt(start) <= 0x20) start++
  return text
    .slice(start)
    .trimEnd()
    .replace(/[\t\n\r]/g, '')
}

/**
 * Whether every program reads one link, so that the comma in `https://acme.com/?q=1,2` separates nothing. False if its
 * host may go on after a comma (`https://acme.com,.evil.net`), or a part could be an address or a name.
 */
function isLoneLink(text: string, start: string): boolean {
  const rest = start.slice(urlStart.exec(start)?.[0].length ?? 0)
  return /[/?#]/.test(rest) && !/[\s@<>"]/.test(text)
}

/**
 * Hosts that `hostsIn` finds whatever the unknown parts of `outline` (`Hole.outline`) are. In a link at the start, the
 * host is certain once its authority has ended; after an `@`, if a sign of `hostEnds` or the end follows. `hostsIn`
 * never splits a text within such a host, and in each piece reads the host after every `@`.
 */
export function settledHosts(outline: string, budget: Budget): Host[] {
  budget.spend(outline.length >> 5)
  const link = /^https?:\/\/([A-Za-z0-9.-]+)(?::\d+)?[/?#]/i.exec(outline)
  const hosts = link?.[1] === undefined ? [] : [normalHost(link[1])]
  for (const [, host = ''] of outline.matchAll(hostEnds)) {
    budget.spend(2)
    const read = normalHost(host)
    if (isNamed(read)) hosts.push(read)
  }
  return hosts
}

const hostEnds = /@([A-Za-z0-9.-]+)(?=[\s,;<>()"']|$)/g

/** At commas, semicolons and line breaks outside quotes. A quote that never closes has no effect. */
function split(text: string): string[] {
  const pieces: string[] = []
  let start = 0
  let isQuoted = false
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (char === '\\' && isQuoted) at++
    else if (char === '"') isQuoted = !isQuoted
    else if (!isQuoted && (char === ',' || char === ';' || char === '\n' || char === '\r')) {
      pieces.push(text.slice(start, at))
      start = at + 1
    }
  }
  pieces.push(text.slice(start))
  const all = isQuoted ? text.split(/[,;\n\r]/) : pieces
  return all.map((piece) => piece.trim()).filter((piece) => piece !== '')
}

function hostsInPiece(piece: string, budget: Budget): Host[] {
  const bare = withoutWrapping(piece)
  // Hosts are read at each `@`, `<` and `:`, in a link the same one up to three times.
  budget.spend(2 + 4 * countOf(bare, '@') + 2 * countOf(bare, '<') + 2 * countOf(bare, ':'))
  if (bare.includes('@')) budget.spend(2 * (countOf(bare, '%') + countOf(bare, '!')))
  const link = urlStart.exec(bare)?.[0]
  const text = /^mailto:/i.test(bare) ? (percentDecoded(bare) ?? bare) : bare
  const hosts: Host[] = link === undefined ? [] : hostsInLink(bare.slice(link.length))
  if (otherScheme.test(bare) || (link !== undefined && !hostScheme.test(link))) hosts.push(null)
  if (text.includes('@')) {
    // In the path of a link, `@` may be something else: `/@ann`, `/react@18.2.0`.
    const isOnlyLink = /^(?:https?|ftp|wss?):/i.test(bare) && !/[\s<>"[]/.test(bare)
    for (const host of hostsAfterAt(text)) if (!isOnlyLink || isNamed(host)) hosts.push(host)
  }
  // In `https://acme.com/ <me>` and `a@acme.com <me>`, `me` is the address.
  const bracketed = hosts.length === 0 ? [] : bare.split('<').slice(1)
  for (const part of bracketed) {
    if (link !== undefined || !part.includes('@'))
      for (const host of hostsInPiece(part, budget)) hosts.push(host)
  }
  const inside = linksInside(bare)
  if (hosts.length > 0) return [...hosts, ...inside]
  const authority = text.split(/[/\\?#]/, 1)[0] ?? ''
  // A word or number without a dot is not meant as a host, although browsers would accept it.
  return [/[.\u3002\uff0e\uff61%]/.test(authority) ? hostOf(authority) : null, ...inside]
}

/** `see https://evil.net`, `blob:https://evil.net/x`. Links in a query are left out. */
function linksInside(text: string): Host[] {
  if (!text.includes('://')) return []
  return [
    ...text.matchAll(/(?<=[\s"'<>()[\]{}|`:])[a-z][a-z0-9+.-]{1,15}:\/\/([^\s"'<>()[\]{}|`]+)/gi),
  ].flatMap(([, rest = '']) => hostsInLink(rest))
}

function countOf(text: string, char: string): number {
  let count = 0
  for (let at = text.indexOf(char); at >= 0; at = text.indexOf(char, at + 1)) count++
  return count
}

/** Mail goes to an IP address only in brackets. */
function isNamed(host: Host): boolean {
  return host !== null && !/(?:^|\.)\d+$/.test(host)
}

const opening = new Set('<"\'(')
const closing = new Set('>"\')')

/** A loop, because a regex for the end of a text takes quadratic time. */
function withoutWrapping(piece: string): string {
  const isBlank = (char: string) => char.trim() === ''
  let start = 0
  let end = piece.length
  while (start < end && (opening.has(piece[start]!) || isBlank(piece[start]!))) start++
  while (end > start && (closing.has(piece[end - 1]!) || isBlank(piece[end - 1]!))) end--
  return piece.slice(start, end)
}

/** RFC 3986 ends the authority at a slash, browsers also at a backslash. `rest` is the link after its scheme. */
function hostsInLink(rest: string): Host[] {
  const hosts: Host[] = []
  const strict = rest.split(/[/?#]/, 1)[0] ?? ''
  const browser = rest.split(/[/\\?#]/, 1)[0] ?? ''
  // No program accepts such user info unchanged, so the host is not certain.
  if (/[\s\p{Cc}]/u.test(strict.slice(0, strict.lastIndexOf('@') + 1))) hosts.push(null)
  for (const authority of strict === browser ? [strict] : [strict, browser]) {
    const parts = authority.split('@')
    for (const part of parts.length > 1 ? parts.slice(1) : parts) hosts.push(hostOf(part))
  }
  return hosts
}

/** Parsers disagree on which host gets `"x@evil.net y"@acme.com`. Also null if some would join more to the host. */
function hostsAfterAt(text: string): Host[] {
  const hosts: Host[] = []
  const parts = text.split('@')
  for (const before of parts.slice(0, -1)) for (const host of hostsOnTheWay(before)) hosts.push(host)
  const isMailto = /^mailto:/i.test(text)
  for (const part of parts.slice(1)) {
    const host = /^\s*((?:[^\s,;<>()"'[\]\\/?#:&=|{}^`~$!*+%]|%[0-9a-f]{2})*)(.*)$/is.exec(part)
    hosts.push(hostOf(host?.[1] ?? ''))
    const rest = host?.[2] ?? ''
    if (glued.test(rest) && !(isMailto && rest.startsWith('&'))) hosts.push(null)
  }
  return hosts
}

const glued = /^\s*[.([\\]|^[&=|{}^`~$!*+%]|^["'][^\s,;<>"')]/

/** `b%evil.net@acme.com` and `evil.net!b@acme.com` ask acme.com to forward. Also null, as not every server does. */
function hostsOnTheWay(before: string): Host[] {
  const end = before.endsWith('"') ? before.length - 1 : before.length
  let start = end
  while (start > 0 && !/[\s,;<>()"]/.test(before[start - 1] ?? '')) start--
  const local = before.slice(start, end)
  const percents = local.split('%').slice(1)
  const bangs = local.split('!').slice(0, -1)
  const hops = [...percents, ...bangs].filter((hop) => hop.includes('.'))
  return hops.length === 0 ? [] : [null, ...hops.map(hostOf)]
}

function hostOf(authority: string): Host {
  return normalHost(authority.startsWith('[') ? authority : authority.replace(/:\d*$/, ''))
}
