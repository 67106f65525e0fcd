import { links, placeRows } from './places.ts'

/**
 * Texts and their readings by a careful person: the hosts to which a text may lead, and the Google file to which it
 * links. A host is null if it is not a domain; it is then outside every domain. People wrote these readings, not our
 * code: the oracles compare our code with them.
 */
export interface Reading {
  readonly hosts: readonly (string | null)[]
  /** The bare id, for a link to a Google file; otherwise the text itself. */
  readonly id: string
  /** Addresses to which mail could go, in the form in which mailboxes are compared: lower case, host in normal form. */
  readonly addresses: readonly string[]
}

type Row = readonly [text: string, ...hosts: (string | null)[]]

/** Single recipients. A list of recipients has the hosts of all its elements. */
const recipients: readonly Row[] = [
  ['a@acme.com', 'acme.com'],
  ['A.B@ACME.COM', 'acme.com'],
  ['b@evil.net', 'evil.net'],
  ['c@mail.acme.com', 'mail.acme.com'],
  ['c@evilacme.com', 'evilacme.com'],
  ['c@acme.com.evil.net', 'acme.com.evil.net'],
  ['Ann <a@acme.com>', 'acme.com'],
  ['Acme <b@evil.net>', 'evil.net'],
  ['"a@acme.com" <b@evil.net>', 'acme.com', 'evil.net'],
  ['"Doe, Ann" <a@acme.com>', 'acme.com'],
  ['a@acme.com@evil.net', 'acme.com', 'evil.net'],
  ['x@bücher.de', 'xn--bcher-kva.de'],
  ['x@xn--bcher-kva.de', 'xn--bcher-kva.de'],
  ['x@аcme.com', 'xn--cme-5cd.com'],
  ['x@acme。com', 'acme.com'],
  ['x@acme.com.', 'acme.com'],
  ['x@evil.s3.amazonaws.com', 'evil.s3.amazonaws.com'],
  ['b@(acme.com)evil.net', 'evil.net', null],
  ['a@acme.com <me>', 'acme.com', null],
  ['=?utf-8?q?b=40evil.net=2C?= <a@acme.com>', 'acme.com', 'evil.net'],
  ['b%evil.net@acme.com', 'acme.com', 'evil.net', null],
  ['me', null],
]

const others: readonly Row[] = [
  ['', ...[]],
  ['hello', null],
  ['hello world', null],
  ['oh hello', null],
  ['x', null],
  ['X', null],
  ['1', null],
  ['acme.com', 'acme.com'],
  ['acme.com.evil.net', 'acme.com.evil.net'],
  ['https://acme.com/x', 'acme.com'],
  ['https://docs.acme.com:8443/x?y=1#z', 'docs.acme.com'],
  ['HTTPS://ACME.COM./', 'acme.com'],
  ['https://evil.net/?x=acme.com', 'evil.net'],
  ['https://evil.net/acme.com', 'evil.net'],
  ['evil.net/?x=acme.com', 'evil.net'],
  ['https://acme.com@evil.net/', 'evil.net'],
  ['https://acme.com:pw@evil.net:443/', 'evil.net'],
  ['https://acme.com\\@evil.net/', 'acme.com', 'evil.net'],
  ['https://evil.net\\.acme.com/', 'evil.net', null],
  ['https://ACME。com/', 'acme.com'],
  ['https://evil.s3.amazonaws.com/', 'evil.s3.amazonaws.com'],
  ['https://аcme.com/', 'xn--cme-5cd.com'],
  ['//evil.net/x', 'evil.net'],
  ['mailto:a@acme.com?cc=b%40evil.net', 'acme.com', 'evil.net'],
  ['http://2130706433/', '127.0.0.1'],
  ['see https://evil.net/', 'evil.net', null],
  ['javascript://acme.com/%0aalert(1)', 'acme.com', null],
  ['s3://acme.com/x', 'acme.com', null],
  ['ht\ttp://evil.net/a@acme.com', 'evil.net', 'acme.com'],
]

const bareIds: readonly Row[] = [
  ['FILE1', null],
  ['FILE2', null],
  ['FILE', null],
  ['see FILE1 there', null],
]

/** The addresses in each text that contains one. */
const addresses: Readonly<Record<string, readonly string[]>> = {
  'a@acme.com': ['a@acme.com'],
  'A.B@ACME.COM': ['a.b@acme.com'],
  'b@evil.net': ['b@evil.net'],
  'c@mail.acme.com': ['c@mail.acme.com'],
  'c@evilacme.com': ['c@evilacme.com'],
  'c@acme.com.evil.net': ['c@acme.com.evil.net'],
  'Ann <a@acme.com>': ['a@acme.com'],
  'Acme <b@evil.net>': ['b@evil.net'],
  '"a@acme.com" <b@evil.net>': ['a@acme.com', 'b@evil.net'],
  '"Doe, Ann" <a@acme.com>': ['a@acme.com'],
  'a@acme.com@evil.net': ['a@acme.com', 'acme.com@evil.net'],
  'x@bücher.de': ['x@xn--bcher-kva.de'],
  'x@xn--bcher-kva.de': ['x@xn--bcher-kva.de'],
  'x@аcme.com': ['x@xn--cme-5cd.com'],
  'x@acme。com': ['x@acme.com'],
  'x@acme.com.': ['x@acme.com'],
  'x@evil.s3.amazonaws.com': ['x@evil.s3.amazonaws.com'],
  'a@acme.com <me>': ['a@acme.com'],
  'b@(acme.com)evil.net': ['b@evil.net'],
  '=?utf-8?q?b=40evil.net=2C?= <a@acme.com>': ['a@acme.com', 'b@evil.net'],
  'b%evil.net@acme.com': ['b%evil.net@acme.com'],
  'ht\ttp://evil.net/a@acme.com': ['a@acme.com'],
  'https://acme.com@evil.net/': ['acme.com@evil.net'],
  'https://acme.com:pw@evil.net:443/': ['pw@evil.net'],
  'mailto:a@acme.com?cc=b%40evil.net': ['a@acme.com'],
}

const addressesOf = (text: string): readonly string[] => addresses[text] ?? []

const readings = new Map<string, Reading>([
  ...placeRows.map(({ text, host, id }) => [text, { id, hosts: [host], addresses: [] }] as [string, Reading]),
  ...[...recipients, ...others, ...bareIds].map(
    ([text, ...hosts]) => [text, { id: text, hosts, addresses: addressesOf(text) }] as [string, Reading],
  ),
  ...links.map(
    ([text, id, host]) => [text, { id: id || text, hosts: [host], addresses: [] }] as [string, Reading],
  ),
])

/**
 * The forms of a rule's text for comparisons with addresses. `whole` is compared with a whole address, and `parts`
 * with the beginning or end of an address.
 */
export function writtenAddress(text: string): {
  readonly whole: string | null
  readonly parts: readonly string[]
} {
  const isPlain = /^[^\s,;:<>()"'[\]\\/]+$/.test(text)
  const [first, second] = addressesOf(text)
  const whole = isPlain && second === undefined ? (first ?? null) : null
  return { whole, parts: isPlain ? [text.toLowerCase(), ...(whole === null ? [] : [whole])] : [] }
}

/** The reading of a text in a call. */
export function readingOf(text: string): Reading {
  const known = readings.get(text)
  if (known !== undefined) return known
  throw new Error(`no reading was written for \`${text}\``)
}

/** The form of a rule's text that is compared. Only for links does this form differ from the text. */
export function idOf(text: string): string {
  return readings.get(text)?.id ?? text
}

/** Whether people wrote a reading of this text. */
export const isKnownText = (text: string): boolean => readings.has(text)

/** A list of recipients, as people write it. The reading of the list is the union of the readings of its parts. */
export function joined(parts: readonly string[], separator: string): string {
  const text = parts.join(separator)
  if (!readings.has(text)) {
    readings.set(text, {
      id: text,
      hosts: [...new Set(parts.flatMap((part) => readingOf(part).hosts))],
      addresses: [...new Set(parts.flatMap((part) => readingOf(part).addresses))],
    })
  }
  return text
}

export const recipientTexts = recipients.map(([text]) => text)
export const linkTexts = links.map(([text]) => text)
/** Texts of parameters that name no place. */
export const allTexts = [...readings.keys()].filter((text) => !placeRows.some((row) => row.text === text))

/** Domains as rules write them, with the form in which hosts are compared. */
export const ruleDomains: ReadonlyMap<string, string> = new Map([
  ['acme.com', 'acme.com'],
  ['ACME.com.', 'acme.com'],
  ['evil.net', 'evil.net'],
  ['mail.acme.com', 'mail.acme.com'],
  ['bücher.de', 'xn--bcher-kva.de'],
  ['amazonaws.com', 'amazonaws.com'],
  ['google.com', 'google.com'],
])

/** Hosts below a public suffix of several labels, where anybody can register. */
export const suffixes: Readonly<Record<string, string>> = { 'evil.s3.amazonaws.com': 's3.amazonaws.com' }
