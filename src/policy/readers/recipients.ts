import type { Budget } from '../budget.ts'
import { normalHost } from './hosts.ts'
import { percentDecoded } from './percent.ts'
import { hidesAddress, otherReadings } from './text-variants.ts'

/** A host in normal form. Is null if the text cannot be read as a host. Such a text counts as outside every domain. */
export type Host = string | null

const plainAddress = /^[A-Za-z0-9._+-]+@([a-z0-9][a-z0-9.-]*[a-z])$/
// Browsers need no slashes after `https:`. Other schemes count only if slashes follow.
const urlStart = /^(?:(?:https?|ftp|wss?):[\\/]*|[A-Za-z][A-Za-z0-9+.-]*:[\\/]+|[\\/]{2,})/i

/** Schemes whose links lead to the host they name. For other schemes this is unknown: `s3://acme.com` is a bucket. */
const hostScheme =
  /^(?:https?|wss?|s?ftps?|ssh|git|svn|rsync|smb|ldaps?|imaps?|smtps?|pop3s?|gopher|(?:git|svn)\+\w+|[\\/]+):?[\\/]*$/i
/** Schemes whose links have no host, or contain another link with the host (`view-source:https://acme.com`). */
const otherScheme = /^(?:javascript|vbscript|data|about|blob|filesystem|jar|view-source|feed|intent):/i

/**
 * Returns every host that some program could find in a text. Hosts are read from each address in a list, from
 * `Name <a@x>`, and from links with user info, ports and backslashes. Hosts are also read after any `@`, even in a
 * link. If programs differ, the result has the hosts of all readings, so that a restrictive rule sees the worst
 * reading. Blank text has no hosts. Takes linear time. Spends budget while it reads, so a long list throws
 * BudgetExceeded early.
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
    // A mail tool accepts the word `me` in a list of recipients, so `me` never counts as the rest of a link. (In runs,
    // `me` has already become an address, see me.ts.)
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

/**
 * Finds a host that continues after white space. Mail libraries ignore this white space: `a@acme.com. evil.net` goes to
 * acme.com.evil.net. The pattern stops at the next `@`, so that matching takes linear time.
 */
const hostGoesOn = /@[^\s@,;:<>()"]*(?:\.\s+|\s+\.\s*)[^\s,;<>]/

/**
 * Returns a text as browsers read a link: without tabs and line breaks inside it, and without control characters before
 * it. For example, `https://acme.com\n.evil.net` goes to acme.com.evil.net, and `ht\ttp://evil.net/a@acme.com` goes to
 * evil.net.
 */
function asBrowsersJoin(text: string): string {
  let start = 0
  while (start < text.length && text.charCodeAt(start) <= 0x20) start++
  return text
    .slice(start)
    .trimEnd()
    .replace(/[\t\n\r]/g, '')
}

/**
 * Whether every program reads a text as one link, so that the comma in `https://acme.com/?q=1,2` does not separate two
 * addresses. Returns false if the host of the link may continue after the comma (`https://acme.com,.evil.net`), or if a
 * part of the text could be an address or a name.
 */
function isLoneLink(text: string, start: string): boolean {
  const rest = start.slice(urlStart.exec(start)?.[0].length ?? 0)
  return /[/?#]/.test(rest) && !/[\s@<>"]/.test(text)
}

/**
 * Returns hosts that `hostsIn` finds for all possible values of the unknown parts. `outline` is `Hole.outline`. In a
 * link at the start, the host is certain once its authority has ended, e.g. with `/`. A host after an `@` is certain if
 * a sign of `hostEnds` or the end of the text follows it. `hostsIn` splits a text into pieces, but never within such a
 * host. In each piece, `hostsIn` reads the host after every `@`, also in quotes, comments and links.
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

/**
 * Splits a text at commas, semicolons and line breaks outside quotes. If a quote never closes, quotes have no effect.
 */
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
  // The code below reads hosts at each `@`, `<` and `:`. In a link, it reads the same host up to three times.
  budget.spend(2 + 4 * countOf(bare, '@') + 2 * countOf(bare, '<') + 2 * countOf(bare, ':'))
  if (bare.includes('@')) budget.spend(2 * (countOf(bare, '%') + countOf(bare, '!')))
  const link = urlStart.exec(bare)?.[0]
  const text = /^mailto:/i.test(bare) ? (percentDecoded(bare) ?? bare) : bare
  const hosts: Host[] = link === undefined ? [] : hostsInLink(bare.slice(link.length))
  if (otherScheme.test(bare) || (link !== undefined && !hostScheme.test(link))) hosts.push(null)
  if (text.includes('@')) {
    // In the path of a link, `@` may stand for something else: `/@ann`, `/react@18.2.0`.
    const isOnlyLink = /^(?:https?|ftp|wss?):/i.test(bare) && !/[\s<>"[]/.test(bare)
    for (const host of hostsAfterAt(text)) if (!isOnlyLink || isNamed(host)) hosts.push(host)
  }
  // In `https://acme.com/ <me>` and in `a@acme.com <me>`, the text before `<` is a name and `me` is the address.
  const bracketed = hosts.length === 0 ? [] : bare.split('<').slice(1)
  for (const part of bracketed) {
    if (link !== undefined || !part.includes('@'))
      for (const host of hostsInPiece(part, budget)) hosts.push(host)
  }
  const inside = linksInside(bare)
  if (hosts.length > 0) return [...hosts, ...inside]
  const authority = text.split(/[/\\?#]/, 1)[0] ?? ''
  // A word or number without a dot is not meant as a host, although browsers would accept it. It counts as unreadable.
  return [/[.\u3002\uff0e\uff61%]/.test(authority) ? hostOf(authority) : null, ...inside]
}

/**
 * The hosts of links inside a text: `see https://evil.net`, `blob:https://evil.net/x`. Links in a query are left out.
 */
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

/** Returns whether mail can go to the host. Mail goes to an IP address only if the address is in brackets. */
function isNamed(host: Host): boolean {
  return host !== null && !/(?:^|\.)\d+$/.test(host)
}

const opening = new Set('<"\'(')
const closing = new Set('>"\')')

/**
 * Removes brackets, quotes and white space around a piece. Uses a loop, because a regex for the end of a text takes
 * quadratic time.
 */
function withoutWrapping(piece: string): string {
  const isBlank = (char: string) => char.trim() === ''
  let start = 0
  let end = piece.length
  while (start < end && (opening.has(piece[start]!) || isBlank(piece[start]!))) start++
  while (end > start && (closing.has(piece[end - 1]!) || isBlank(piece[end - 1]!))) end--
  return piece.slice(start, end)
}

/**
 * Returns the hosts of a link for two readings. RFC 3986 ends the authority at a slash. Browsers end it at a slash or a
 * backslash. `rest` is the link after its scheme.
 */
function hostsInLink(rest: string): Host[] {
  const hosts: Host[] = []
  const strict = rest.split(/[/?#]/, 1)[0] ?? ''
  const browser = rest.split(/[/\\?#]/, 1)[0] ?? ''
  // No program accepts user info with white space or control characters unchanged, so the host is not certain.
  if (/[\s\p{Cc}]/u.test(strict.slice(0, strict.lastIndexOf('@') + 1))) hosts.push(null)
  for (const authority of strict === browser ? [strict] : [strict, browser]) {
    const parts = authority.split('@')
    for (const part of parts.length > 1 ? parts.slice(1) : parts) hosts.push(hostOf(part))
  }
  return hosts
}

/**
 * Returns the host after every `@`. Parsers disagree on which host gets the mail (`"x@evil.net y"@acme.com`), so all
 * hosts count. Some parsers would join certain characters to the host before them. If such a character follows a host,
 * the result also has null (an unreadable host).
 */
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

/**
 * `b%evil.net@acme.com` and `evil.net!b@acme.com` ask acme.com to forward the mail. Returns the hosts to which acme.com
 * would forward it. Also returns null (an unreadable host), because not every server forwards such mail. `before` is
 * the text before an `@`.
 */
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
