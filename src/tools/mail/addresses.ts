import { domainToASCII } from 'node:url'
import { maxMailRecipients } from './tools.ts'
import { addressItems } from '../../policy/me.ts'
import { normalized } from '../../policy/readers/text-variants.ts'
import { ToolError } from '../kit/executor.ts'

export interface Mailbox {
  readonly name: string
  readonly address: string
}

type RecipientsParam = string | readonly string[] | undefined

/*
 * Rules decide by the same text, so one that two programs could understand differently is refused: groups, comments,
 * routes, quoted local parts, local parts that start like a path, and a display name with another address, a link or an
 * encoded word (RFC 2047).
 */
const atom = String.raw`[\p{L}\p{N}!#$%&'*+/=?^_\x60{|}~-]+`
const addressForm = new RegExp(String.raw`^(${atom}(?:\.${atom})*)@([\p{L}\p{M}\p{N}.-]+)$`, 'u')
const asciiDomain = /^(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*$/
const quotedName = /^"(?:[^"\\]|\\["\\])*"$/u
const plainName = /^[^"<>()[\],;:\\]*$/u
// C0, DEL and C1, except the tab. CR, LF and NUL end a header line, which never needs the others.
// oxlint-disable-next-line no-control-regex
const breaksHeader = /[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]/u

/** Against header injection. Throws `mail_header_invalid` with the field, not its value. */
export function refuseHeaderBreaks(field: string, text: string): void {
  if (!breaksHeader.test(text)) return
  throw new ToolError(
    'mail_header_invalid',
    `\`${field}\` contains a line break or a control character; remove it`,
  )
}

/** Mail programs decode it (RFC 2047), so readers would see another text than rules and approvers. */
const encodedWord = /=\?[^?\s]*\?[bq]\?/i

/** Throws `mail_header_invalid`. */
export function refuseEncodedWords(field: string, text: string): void {
  if (!encodedWord.test(text)) return
  throw new ToolError(
    'mail_header_invalid',
    `\`${field}\` contains an encoded word (\`=?…?=\`); write its characters as they are`,
  )
}

/** Each address once, in ASCII (IDNA) and lower case. Throws `mail_header_invalid`, `mail_address_invalid`. */
export function parseRecipients(field: string, value: RecipientsParam): Mailbox[] {
  const texts = value === undefined ? [] : typeof value === 'string' ? [value] : value
  const found = new Map<string, Mailbox>()
  for (const text of texts) {
    refuseHeaderBreaks(field, text)
    for (const { start, end } of addressItems(text)) {
      // For example after a trailing comma.
      if (start === end) continue
      const mailbox = parseMailbox(field, text.slice(start, end))
      if (!found.has(mailbox.address)) found.set(mailbox.address, mailbox)
    }
  }
  return [...found.values()]
}

/** `fields` begin with `to`. Throws `mail_address_invalid` if it is empty, `mail_too_many_recipients`. */
export function envelopeRecipients(...fields: readonly (readonly Mailbox[])[]): string[] {
  const addresses = [...new Set(fields.flat().map((mailbox) => mailbox.address))]
  if (fields[0]?.length === 0) throw invalid('to')
  if (addresses.length > maxMailRecipients) {
    throw new ToolError(
      'mail_too_many_recipients',
      `the mail has ${addresses.length} recipients; send to at most ${maxMailRecipients} at a time`,
    )
  }
  return addresses
}

/** `a@x.com`, `Name <a@x.com>` or `"Name" <a@x.com>`. Throws `mail_address_invalid`. */
export function parseMailbox(field: string, text: string): Mailbox {
  const item = text.trim()
  const bracket = item.endsWith('>') ? item.lastIndexOf('<') : -1
  const shown = bracket === -1 ? '' : item.slice(0, bracket).trim()
  const written = bracket === -1 ? item : item.slice(bracket + 1, -1).trim()
  const parts = written.length <= 320 ? addressForm.exec(written) : null
  const domain = parts === null ? '' : domainToASCII(parts[2]!).toLowerCase()
  const quoted = quotedName.test(shown)
  // The last label of an IPv4 address starts with a digit.
  if (written.startsWith('/') || !asciiDomain.test(domain) || !(quoted || plainName.test(shown)))
    throw invalid(field)
  const address = `${parts![1]}@${domain}`
  if (address.length > 254) throw invalid(field)
  const name = quoted
    ? shown
        .slice(1, -1)
        .replaceAll(/\\(["\\])/g, '$1')
        .trim()
    : shown
  if (deceives(name, address)) throw invalid(field)
  return { name, address }
}

/** Mail programs show the name alone: another address, a link or an encoded word in it would deceive readers. */
function deceives(name: string, address: string): boolean {
  const seen = normalized(name, 'NFKC')
  if (/\/\/|=\?/.test(seen)) return true
  return seen.includes('@') && seen.toLowerCase() !== address.toLowerCase()
}

const invalid = (field: string) =>
  new ToolError(
    'mail_address_invalid',
    `\`${field}\` contains an entry that is not a plain address; write \`name@domain\` or \`Name <name@domain>\`, several separated by commas${field.toLowerCase().endsWith('from') ? '' : ', or `me` for the person who runs the workflow'}`,
  )
